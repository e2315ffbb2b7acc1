/* oom_test.c - each verdict on a shortage, from numbers alone and in a real run. Also: which
 * requests count as failed. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/calls/internal.h"
#include "api/instance/oom.h"
#include "tests/support/api/api_sim.h"
#include "tests/support/suite.h"

enum { MIB = 1 << 20 };

static const struct judgement {
    pl_shortage s;
    pleat_status status;
    pleat_verdict verdict;
} judgements[] = {
    { { .total = 100, .live = 60, .request = 41 }, PLEAT_ENOMEM_DEVICE, PLEAT_VERDICT_FULL },
    { { .total = 100, .live = 60, .request = 41, .limit = 50 },
      PLEAT_ENOMEM_DEVICE,
      PLEAT_VERDICT_FULL },
    { { .total = 100, .live = 60, .request = 40 }, PLEAT_ENOMEM_DEVICE, PLEAT_VERDICT_FRAGMENTED },
    { { .total = 100, .live = 60, .request = 40, .limit = 99 },
      PLEAT_ENOMEM_DEVICE,
      PLEAT_VERDICT_LIMIT },
    { { .total = 100, .live = 60, .request = 40, .limit = 100 },
      PLEAT_ENOMEM_DEVICE,
      PLEAT_VERDICT_FRAGMENTED },
    { { .total = 100, .live = 60, .request = 40, .foreign = 1 },
      PLEAT_ENOMEM_DEVICE,
      PLEAT_VERDICT_FOREIGN },
    { { .total = 100, .live = 60, .request = 40, .foreign = 1, .limit = 99 },
      PLEAT_ENOMEM_DEVICE,
      PLEAT_VERDICT_LIMIT },
    { { .total = 100, .live = 50, .request = 40, .pinned = 11 },
      PLEAT_ENOMEM_DEVICE,
      PLEAT_VERDICT_PINNED },
    { { .total = 100, .live = 50, .request = 40, .pinned = 10 },
      PLEAT_ENOMEM_DEVICE,
      PLEAT_VERDICT_FRAGMENTED },
    { { .total = 100, .live = 30, .request = 40, .pinned = 10, .limit = 75 },
      PLEAT_ENOMEM_DEVICE,
      PLEAT_VERDICT_PINNED },
    { { .total = 100, .live = 50, .request = 40, .pinned = 10, .tied = 1 },
      PLEAT_ENOMEM_DEVICE,
      PLEAT_VERDICT_TIED },
    { { .total = 100, .live = 50, .request = 40, .pinned = 11, .tied = 5 },
      PLEAT_ENOMEM_DEVICE,
      PLEAT_VERDICT_PINNED },
    { { .total = 100, .live = 50, .request = 40, .tied = 10 },
      PLEAT_ENOMEM_DEVICE,
      PLEAT_VERDICT_FRAGMENTED },
    { { .total = 100, .live = 50, .request = 40, .tied = 11, .limit = 95 },
      PLEAT_ENOMEM_DEVICE,
      PLEAT_VERDICT_TIED },
    { { .total = 100,
        .live = 40,
        .request = 40,
        .has_free = true,
        .free = 60,
        .is_refused = true,
        .refused = 40 },
      PLEAT_ENOMEM_DEVICE,
      PLEAT_VERDICT_REFUSED },
    { { .total = 100,
        .live = 40,
        .request = 40,
        .has_free = true,
        .free = 39,
        .is_refused = true,
        .refused = 40 },
      PLEAT_ENOMEM_DEVICE,
      PLEAT_VERDICT_FRAGMENTED },
    { { .total = 100, .live = 40, .request = 40, .free = 60, .is_refused = true, .refused = 40 },
      PLEAT_ENOMEM_DEVICE,
      PLEAT_VERDICT_FRAGMENTED },
    { { .total = 100,
        .live = 40,
        .request = 40,
        .has_free = true,
        .free = 60,
        .is_refused = true,
        .refused = 40,
        .foreign = 21 },
      PLEAT_ENOMEM_DEVICE,
      PLEAT_VERDICT_FOREIGN },
    { { .total = 100, .live = 90, .request = 90 }, PLEAT_EPENDING, PLEAT_VERDICT_PENDING },
    { { .total = 100 }, PLEAT_ENOSPACE_VA, PLEAT_VERDICT_ADDRESS_SPACE },
};

START_TEST(the_verdict_follows_from_the_numbers)
{
    for (size_t i = 0; i < sizeof judgements / sizeof judgements[0]; i++) {
        ck_assert_msg(pl_oom_judge(&judgements[i].s, judgements[i].status) == judgements[i].verdict,
                      "judgement %zu", i);
    }
}
END_TEST

/* The request fails with that verdict, changes nothing, and fails again. */
static void check_verdict(pleat instance, size_t bytes, void *stream, pleat_status status,
                          pleat_verdict verdict)
{
    pleat_stats before = api_stats(instance, 0);
    for (int i = 0; i < 2; i++) {
        pleat_devptr ptr = 77;
        pleat_status st = pleat_block_alloc(instance, 0, bytes, stream, &ptr);
        ck_assert_msg(st == status, "%s", pleat_last_error()->text);
        ck_assert_msg(pleat_last_error()->verdict == verdict, "%s", pleat_last_error()->text);
        ck_assert_uint_eq(pleat_last_error()->bytes, bytes);
        ck_assert_uint_eq(ptr, 77);
    }
    pleat_stats after = api_stats(instance, 0);
    ck_assert_mem_eq(before.allocation, after.allocation, sizeof before.allocation);
    ck_assert_mem_eq(before.allocated_bytes, after.allocated_bytes, sizeof before.allocated_bytes);
    ck_assert_uint_eq(after.num_ooms, before.num_ooms + (status == PLEAT_ENOMEM_DEVICE ? 2 : 0));
    api_check(instance);
}

START_TEST(full_when_live_memory_and_the_request_exceed_the_device)
{
    pleat instance = api_make(_i, "capacity:64M", "");
    pleat_devptr ptr = api_alloc(instance, 0, 40 * MIB, NULL);
    check_verdict(instance, 30 * MIB, NULL, PLEAT_ENOMEM_DEVICE, PLEAT_VERDICT_FULL);
    api_expect(PLEAT_ENOMEM_DEVICE, "device 0", "30.00 MiB (31457280 bytes) requested",
               "total 64.00 MiB", "free 24.00 MiB", "no limit", api_allocators[_i],
               "resident 40.00 MiB", "live 40.00 MiB", "truly full", "6.00 MiB");
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

/* No free helps where the request is too large by itself; numbers that are 0 are left out. */
START_TEST(a_request_larger_than_the_device_is_told)
{
    static const size_t bytes[] = { 65 * MIB, 300 * MIB, (size_t)1 << 40 };
    for (int is_live = 0; is_live < 2; is_live++) {
        pleat instance = api_make(_i % N_API_ALLOCATORS, "capacity:64M", "");
        pleat_devptr ptr = is_live ? api_alloc(instance, 0, MIB, NULL) : 0;
        size_t n = bytes[_i / N_API_ALLOCATORS];
        check_verdict(instance, n, NULL, PLEAT_ENOMEM_DEVICE, PLEAT_VERDICT_FULL);
        api_expect(PLEAT_ENOMEM_DEVICE, "the request alone is more than the device has", "larger");
        ck_assert_ptr_null(strstr(pleat_last_error()->text, "less live memory"));
        ck_assert_ptr_null(strstr(pleat_last_error()->text, "graphs or pools"));
        ck_assert_ptr_null(strstr(pleat_last_error()->text, "work is over"));
        if (is_live) {
            api_free(instance, 0, ptr, NULL);
        }
        api_unmake(instance);
    }
}
END_TEST

START_TEST(limit_when_the_device_would_have_room)
{
    pleat instance = api_make(_i, "capacity:256M", "limit:64M");
    pleat_devptr ptr = api_alloc(instance, 0, 40 * MIB, NULL);
    check_verdict(instance, 30 * MIB, NULL, PLEAT_ENOMEM_DEVICE, PLEAT_VERDICT_LIMIT);
    api_expect(PLEAT_ENOMEM_DEVICE, "limit 64.00 MiB", "raise the limit", "6.00 MiB");
    ck_assert_int_eq(pleat_last_error()->driver_result, 0);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

static const int torch_allocators[] = { API_TORCH, API_TORCH_EXPANDABLE };

START_TEST(limit_when_pytorchs_fraction_of_the_device_is_used_up)
{
    pleat instance = api_make(torch_allocators[_i], "capacity:256M",
                              "per_process_memory_fraction:0.25");
    pleat_devptr ptr = api_alloc(instance, 0, 40 * MIB, NULL);
    check_verdict(instance, 30 * MIB, NULL, PLEAT_ENOMEM_DEVICE, PLEAT_VERDICT_LIMIT);
    api_expect(PLEAT_ENOMEM_DEVICE, "limit 64.00 MiB", "6.00 MiB");
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(foreign_when_others_hold_the_difference)
{
    pleat instance = api_make(_i, "capacity:64M,dead_handles:error", "");
    pleat other = api_make(API_TORCH, "capacity:64M,dead_handles:error", "");
    pleat_devptr held = api_alloc(other, 0, 40 * MIB, NULL);
    check_verdict(instance, 30 * MIB, NULL, PLEAT_ENOMEM_DEVICE, PLEAT_VERDICT_FOREIGN);
    api_expect(PLEAT_ENOMEM_DEVICE, "outside of this instance 40.00 MiB", "context of this process",
               "nvidia-smi", "end what can be ended");
    ck_assert_int_eq(pleat_last_error()->driver_result, 2);
    api_free(other, 0, held, NULL);
    ck_assert_int_eq(pleat_destroy(other, 0), PLEAT_OK);
    api_unmake(instance);
}
END_TEST

START_TEST(foreign_when_the_device_is_full_at_its_first_use)
{
    pleat other = api_make(API_TORCH, "capacity:64M,dead_handles:error", "");
    pleat_devptr held = api_alloc(other, 0, 64 * MIB, NULL);
    pleat instance = api_make(_i, "capacity:64M,dead_handles:error", "fallback:unpooled");
    check_verdict(instance, MIB, NULL, PLEAT_ENOMEM_DEVICE, PLEAT_VERDICT_FOREIGN);
    api_expect(PLEAT_ENOMEM_DEVICE, "outside of this instance 64.00 MiB", "without that");
    pleat_device_info info;
    ck_assert_int_eq(pleat_device_query(instance, 0, &info), PLEAT_OK);
    ck_assert_str_eq(info.note, "");
    api_free(other, 0, held, NULL);
    ck_assert_int_eq(pleat_destroy(other, 0), PLEAT_OK);
    api_free(instance, 0, api_alloc(instance, 0, MIB, NULL), NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(foreign_when_not_even_the_driver_s_context_fits)
{
    pleat instance = api_make(_i, "capacity:64M", "");
    pleat_devptr ptr = 77;
    sim.fail_from("cuDevicePrimaryCtxRetain", 0, 2);
    ck_assert_int_eq(pleat_block_alloc(instance, 0, MIB, NULL, &ptr), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(pleat_last_error()->verdict, PLEAT_VERDICT_FOREIGN);
    ck_assert_int_eq(pleat_last_error()->driver_result, 2);
    api_expect(PLEAT_ENOMEM_DEVICE, "the driver's own context", "cuDevicePrimaryCtxRetain");
    ck_assert_uint_eq(ptr, 77);
    sim.fail_never();
    api_free(instance, 0, api_alloc(instance, 0, MIB, NULL), NULL);
    api_unmake(instance);
}
END_TEST

/* Others hold 500 of 1000 MiB. The reported missing amount helps; any less does not. */
START_TEST(what_is_missing_is_what_helps)
{
    pleat instance = api_make(_i, "capacity:1000M,context:500M", "");
    pleat_devptr live[4];
    for (int i = 0; i < 4; i++) {
        live[i] = api_alloc(instance, 0, 100 * MIB, NULL);
    }
    check_verdict(instance, 700 * MIB, NULL, PLEAT_ENOMEM_DEVICE, PLEAT_VERDICT_FULL);
    api_expect(PLEAT_ENOMEM_DEVICE, "600.00 MiB are missing", "only less live memory");
    check_verdict(instance, 300 * MIB, NULL, PLEAT_ENOMEM_DEVICE, PLEAT_VERDICT_FOREIGN);
    api_expect(PLEAT_ENOMEM_DEVICE, "200.00 MiB are missing",
               "500.00 MiB of the device are in use outside of this instance, by the CUDA context");
    api_free(instance, 0, live[0], NULL);
    check_verdict(instance, 300 * MIB, NULL, PLEAT_ENOMEM_DEVICE, PLEAT_VERDICT_FOREIGN);
    api_expect(PLEAT_ENOMEM_DEVICE, "100.00 MiB are missing");
    api_free(instance, 0, live[1], NULL);
    api_free(instance, 0, api_alloc(instance, 0, 300 * MIB, NULL), NULL);
    api_free(instance, 0, live[2], NULL);
    api_free(instance, 0, live[3], NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(a_limit_is_not_to_be_raised_beyond_what_others_leave)
{
    pleat instance = api_make(_i, "capacity:1000M,context:700M", "limit:450M");
    pleat_devptr live = api_alloc(instance, 0, 200 * MIB, NULL);
    check_verdict(instance, 300 * MIB, NULL, PLEAT_ENOMEM_DEVICE, PLEAT_VERDICT_LIMIT);
    api_expect(PLEAT_ENOMEM_DEVICE, "200.00 MiB are missing", "free blocks", "no room for a limit");
    ck_assert_ptr_null(strstr(pleat_last_error()->text, "raise the limit"));
    api_free(instance, 0, live, NULL);
    api_unmake(instance);
}
END_TEST

static void refuse_memory(int result)
{
    sim.fail_from("cuMemCreate", 0, result);
    sim.fail_from("cuMemAlloc", 0, result);
    sim.fail_from("cuMemAllocAsync", 0, result);
    sim.fail_from("cuMemAllocFromPoolAsync", 0, result);
}

/* As on WSL and virtual GPUs. No other process could have freed memory. */
START_TEST(refused_when_the_driver_grants_less_than_it_reports)
{
    pleat instance = api_make(_i, "capacity:1G", "");
    pleat_devptr ptr = api_alloc(instance, 0, 100 * MIB, NULL);
    refuse_memory(2);
    check_verdict(instance, 600 * MIB, NULL, PLEAT_ENOMEM_DEVICE, PLEAT_VERDICT_REFUSED);
    api_expect(PLEAT_ENOMEM_DEVICE, "the driver refused ", " although it reports 924.00 MiB free",
               "WSL", "a limit of 100.00 MiB", "CUDA_ERROR_OUT_OF_MEMORY");
    ck_assert_ptr_null(strstr(pleat_last_error()->text, "threads"));
    ck_assert_int_eq(pleat_last_error()->driver_result, 2);
    sim.fail_never();
    api_free(instance, 0, api_alloc(instance, 0, 600 * MIB, NULL), NULL);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

/* A device without memory for page tables is out of memory. */
START_TEST(out_of_memory_while_mapping_is_out_of_memory)
{
    static const char *const calls[] = { "cuMemMap", "cuMemSetAccess" };
    pleat instance = api_make(API_PLEAT, "capacity:1G", "");
    pleat_devptr ptr;
    api_free(instance, 0, api_alloc(instance, 0, MIB, NULL), NULL);
    sim.fail_from(calls[_i], 0, 2);
    ck_assert_int_eq(pleat_block_alloc(instance, 0, 600 * MIB, NULL, &ptr), PLEAT_ENOMEM_DEVICE);
    api_expect(PLEAT_ENOMEM_DEVICE, "out of device memory", calls[_i]);
    sim.fail_never();
    ck_assert_int_eq(pleat_block_alloc(instance, 0, 600 * MIB, NULL, &ptr), PLEAT_OK);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

/* The device is full: the request gets memory that is mapped elsewhere, and nothing can be mapped
 * any more. What was free serves again as soon as there is room for page tables. */
START_TEST(a_full_device_without_room_for_page_tables_is_out_of_memory)
{
    enum { N = 32, GRANULE = 2 * MIB };
    static const char *const calls[] = { "cuMemMap", "cuMemSetAccess" };
    pleat instance = api_make(API_PLEAT, "capacity:64M", "chunk_granules:1,chunks:granule");
    pleat_devptr blocks[N];
    pleat_devptr ptr;
    for (unsigned i = 0; i < N; i++) {
        blocks[i] = api_alloc(instance, 0, GRANULE, NULL);
    }
    for (unsigned i = 0; i < N; i += 2) {
        api_free(instance, 0, blocks[i], NULL);
    }
    sim.fail_from(calls[_i], 0, 2);
    ck_assert_int_eq(pleat_block_alloc(instance, 0, 8 * GRANULE, NULL, &ptr), PLEAT_ENOMEM_DEVICE);
    api_expect(PLEAT_ENOMEM_DEVICE, "out of device memory", calls[_i]);
    sim.fail_never();
    ck_assert_int_eq(pleat_block_alloc(instance, 0, 8 * GRANULE, NULL, &ptr), PLEAT_OK);
    api_free(instance, 0, ptr, NULL);
    for (unsigned i = 1; i < N; i += 2) {
        api_free(instance, 0, blocks[i], NULL);
    }
    api_unmake(instance);
}
END_TEST

/* An unmapping that stops midway is finished or undone, so that no block has a hole. */
START_TEST(a_trim_that_stops_in_the_middle_leaves_no_hole)
{
    pleat instance = api_make(API_PLEAT,
                              _i % 2 == 0 ? "capacity:64M" : "capacity:64M,unkind:[partial_unmap]",
                              "chunk_granules:1,chunks:granule");
    pleat_devptr ptr = api_alloc(instance, 0, 16 * MIB, NULL);
    api_free(instance, 0, ptr, NULL);
    for (int k = 0; k < 2 + _i / 2; k++) {
        sim.fail_at("cuMemUnmap", (uint64_t)k, 999);
    }
    pleat_status st = pleat_device_trim(instance, 0, 0, true, NULL);
    ck_assert(st == PLEAT_OK || st == PLEAT_EDRIVER);
    sim.fail_never();
    ptr = api_alloc(instance, 0, 16 * MIB, NULL);
    pleat_sim_access access = { .ptr = ptr, .bytes = 16 * MIB, .is_write = true };
    ck_assert_int_eq(sim.work(NULL, &access, 1), 0);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

static uint64_t now_ms(void)
{
    struct timespec now;
    ck_assert_int_eq(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* After a faulting kernel no work on the GPU ever ends, so no request waits for it. */
START_TEST(a_broken_context_is_told_at_once)
{
    static const int results[] = { 700, 719 };
    pleat instance = api_make(API_PLEAT, "capacity:64M,depth:1048576", "wait_ms:60000");
    void *stream = api_stream(instance, 0);
    pleat_devptr ptr = api_alloc(instance, 0, 40 * MIB, stream);
    pleat_sim_access access = { .ptr = ptr, .bytes = MIB, .is_write = true };
    ck_assert_int_eq(sim.work(stream, &access, 1), 0);
    api_free(instance, 0, ptr, stream);
    sim.broken(results[_i]);
    uint64_t began_ms = now_ms();
    ck_assert_int_eq(pleat_block_alloc(instance, 0, 50 * MIB, NULL, &ptr), PLEAT_EDRIVER);
    ck_assert_int_eq(pleat_last_error()->driver_result, results[_i]);
    ck_assert_ptr_nonnull(strstr(pleat_last_error()->text, "kernel"));
    ck_assert_uint_lt(now_ms() - began_ms, 10000);
    sim.broken(0);
    api_stream_end(instance, 0, stream);
    api_unmake(instance);
}
END_TEST

/* For any answer of the driver, the error has the number, the name and the call. */
START_TEST(the_driver_s_own_words_are_told)
{
    static const int results[] = { 1, 3, 46, 201, 214, 304, 600, 700, 719, 802, 999 };
    pleat instance = api_make(_i, "capacity:1G", "");
    api_free(instance, 0, api_alloc(instance, 0, MIB, NULL), NULL);
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
        pleat_devptr ptr;
        const char *name = NULL;
        refuse_memory(results[i]);
        pleat_status st = pleat_block_alloc(instance, 0, 600 * MIB, NULL, &ptr);
        ck_assert_msg(st == PLEAT_EDRIVER, "%d: %s", results[i], pleat_status_text(st));
        ck_assert_int_eq(pleat_last_error()->driver_result, results[i]);
        ck_assert_int_eq(strncmp(pleat_last_error()->driver_call, "cuMem", 5), 0);
        sim.fail_never();
        char *text = strdup(pleat_last_error()->text);
        ck_assert_int_eq(pl_cu_error_name(pleat_internal_driver(instance), results[i], &name), 0);
        ck_assert_msg(strstr(text, name) != NULL, "%d: %s", results[i], text);
        free(text);
    }
    api_check(instance);
    api_unmake(instance);
}
END_TEST

START_TEST(fragmented_when_a_classic_cache_has_the_bytes_in_pieces)
{
    pleat instance = api_make(API_TORCH, "capacity:64M", "");
    pleat_devptr ptrs[6];
    for (int i = 0; i < 6; i++) { /* three segments of 20 MiB, two blocks in each */
        ptrs[i] = api_alloc(instance, 0, 9 * MIB, NULL);
    }
    for (int i = 0; i < 6; i += 2) {
        api_free(instance, 0, ptrs[i], NULL);
    }
    check_verdict(instance, 24 * MIB, NULL, PLEAT_ENOMEM_DEVICE, PLEAT_VERDICT_FRAGMENTED);
    api_expect(PLEAT_ENOMEM_DEVICE, "fragmented", "allocator:pleat");
    for (int i = 1; i < 6; i += 2) {
        api_free(instance, 0, ptrs[i], NULL);
    }
    api_unmake(instance);
}
END_TEST

START_TEST(pleat_serves_what_fragments_the_classic_cache)
{
    pleat instance = api_make(API_PLEAT, "capacity:64M", "");
    pleat_devptr ptrs[6];
    for (int i = 0; i < 6; i++) {
        ptrs[i] = api_alloc(instance, 0, 9 * MIB, NULL);
    }
    for (int i = 0; i < 6; i += 2) {
        api_free(instance, 0, ptrs[i], NULL);
    }
    api_free(instance, 0, api_alloc(instance, 0, 24 * MIB, NULL), NULL);
    for (int i = 1; i < 6; i += 2) {
        api_free(instance, 0, ptrs[i], NULL);
    }
    api_unmake(instance);
}
END_TEST

START_TEST(address_space_when_the_budget_is_spent)
{
    pleat instance = api_make(API_PLEAT, "capacity:256M", "address_budget:64M");
    pleat_devptr ptr = api_alloc(instance, 0, 4 * MIB, NULL);
    check_verdict(instance, 128 * MIB, NULL, PLEAT_ENOSPACE_VA, PLEAT_VERDICT_ADDRESS_SPACE);
    api_expect(PLEAT_ENOSPACE_VA, "address space, not memory", "address_budget");
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

/* Make a live and a pending block in the routed pool. 0: no addresses are left. */
static pleat_devptr settle_in_pool(pleat instance, void *stream)
{
    pleat_devptr ptr = 0;
    if (pleat_block_alloc(instance, 0, 3000, stream, &ptr) != PLEAT_OK) {
        ck_assert_int_eq(pleat_last_error()->verdict, PLEAT_VERDICT_ADDRESS_SPACE);
        api_expect(PLEAT_ENOSPACE_VA, "address space, not memory", "address_budget");
        return 0;
    }
    pleat_devptr gone = api_alloc(instance, 0, 3000, stream);
    pleat_sim_access access = { .ptr = gone, .bytes = 3000, .is_write = true };
    ck_assert_int_eq(sim.work(stream, &access, 1), 0);
    api_free(instance, 0, gone, stream);
    return ptr;
}

/* The free rest of each pool's granules is pending on both streams. Other pools cannot use this
 * memory. */
START_TEST(address_space_when_pools_have_it_all)
{
    enum { MOST = 64 };
    pleat instance = api_make(API_PLEAT, "capacity:256M,depth:1048576", "address_budget:512M");
    void *streams[2] = { api_stream(instance, 0), api_stream(instance, 0) };
    pleat_devptr ptrs[MOST];
    unsigned n = 0;
    for (bool is_left = true; is_left && n < MOST;) {
        pleat_pool_id id = { 1, n / 2 };
        ck_assert_int_eq(pleat_pool_begin(instance, 0, id, NULL, NULL, NULL), PLEAT_OK);
        ptrs[n] = settle_in_pool(instance, streams[n % 2]);
        is_left = ptrs[n] != 0;
        n += is_left;
        ck_assert_int_eq(pleat_pool_end(instance, 0, id), PLEAT_OK);
    }
    ck_assert_uint_gt(n, 2);
    ck_assert_uint_lt(n, MOST);
    api_check(instance);
    for (unsigned i = 0; i < n; i++) {
        api_free(instance, 0, ptrs[i], streams[i % 2]);
    }
    sim.finish();
    api_stream_end(instance, 0, streams[0]);
    api_stream_end(instance, 0, streams[1]);
    api_unmake(instance);
}
END_TEST

START_TEST(pending_when_waiting_and_ordering_are_forbidden)
{
    pleat instance = api_make(API_PLEAT, "capacity:64M", "cross_stream:settled,wait_ms:0");
    void *a = api_stream(instance, 0);
    void *b = api_stream(instance, 0);
    api_free(instance, 0, api_alloc(instance, 0, 4 * MIB, b), b);
    pleat_devptr ptr = api_alloc(instance, 0, 48 * MIB, a);
    pleat_sim_access access = { .ptr = ptr, .bytes = 4096, .is_write = true };
    ck_assert_int_eq(sim.work(a, &access, 1), 0);
    api_free(instance, 0, ptr, a);
    check_verdict(instance, 48 * MIB, b, PLEAT_EPENDING, PLEAT_VERDICT_PENDING);
    api_expect(PLEAT_EPENDING, "last use on the GPU is not over", "wait_ms", "cross_stream:order",
               "pends on the stream 0x", "(id ");
    sim.finish();
    api_free(instance, 0, api_alloc(instance, 0, 48 * MIB, b), b);
    sim.finish();
    api_stream_end(instance, 0, a);
    api_stream_end(instance, 0, b);
    api_unmake(instance);
}
END_TEST

START_TEST(pinned_when_a_captured_graph_holds_the_difference)
{
    pleat instance = api_make(API_PLEAT, "capacity:64M", "");
    pl_driver *drv = pleat_internal_driver(instance);
    void *stream = api_stream(instance, 0);
    void *graph = NULL;
    api_free(instance, 0, api_alloc(instance, 0, MIB, stream), stream);
    ck_assert_int_eq(pl_device_enter(pleat_internal_device(instance, 0)), PLEAT_OK);
    ck_assert_int_eq(pl_cu_stream_begin_capture(drv, stream, 2), 0);
    pleat_devptr ptr = 0;
    pleat_status st = pleat_block_alloc(instance, 0, 40 * MIB, stream, &ptr);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
    api_free(instance, 0, ptr, stream);
    ck_assert_int_eq(pl_cu_stream_end_capture(drv, stream, (void *)&graph), 0);
    pl_device_leave(pleat_internal_device(instance, 0));
    check_verdict(instance, 40 * MIB, NULL, PLEAT_ENOMEM_DEVICE, PLEAT_VERDICT_PINNED);
    api_expect(PLEAT_ENOMEM_DEVICE, "kept by graphs or pools 40.00 MiB",
               "pleat_device_release_capture");
    ck_assert_int_eq(pl_cu_graph_destroy(drv, graph), 0);
    ck_assert_int_eq(pleat_device_release_capture(instance, 0, stream), PLEAT_OK);
    api_free(instance, 0, api_alloc(instance, 0, 40 * MIB, NULL), NULL);
    sim.finish();
    api_stream_end(instance, 0, stream);
    api_unmake(instance);
}
END_TEST

/* In a chunk of 8 granules only the first and the last are live. A request of 8 has no place in
 * it. */
START_TEST(tied_when_chunks_that_are_partly_in_use_hold_the_difference)
{
    pleat instance = api_make(API_PLEAT, "capacity:256M", "chunks:mixed,chunk_share:1");
    pleat_devptr first = api_alloc(instance, 0, 14 * MIB, NULL); /* 7 granules */
    pleat_devptr chunk = api_alloc(instance, 0, 16 * MIB, NULL);
    ck_assert_int_eq(pleat_device_set_limit(instance, 0, 30 * MIB), PLEAT_OK);
    api_free(instance, 0, chunk, NULL);
    pleat_devptr low = api_alloc(instance, 0, 2 * MIB, NULL);
    pleat_devptr middle = api_alloc(instance, 0, 12 * MIB, NULL);
    pleat_devptr high = api_alloc(instance, 0, 2 * MIB, NULL);
    ck_assert_uint_eq(low, chunk);
    ck_assert_uint_eq(high, chunk + 14 * MIB);
    api_free(instance, 0, middle, NULL);
    pleat_stats s = api_stats(instance, 0);
    ck_assert_uint_eq(s.live_granules, 9);
    ck_assert_uint_eq(s.tied_granules, 6);
    ck_assert_uint_eq(s.pinned_granules, 0);
    api_free(instance, 0, first, NULL); /* 7 granules that can be taken */
    check_verdict(instance, 16 * MIB, NULL, PLEAT_ENOMEM_DEVICE, PLEAT_VERDICT_TIED);
    api_expect(PLEAT_ENOMEM_DEVICE,
               "live 4.00 MiB, tied to partly used chunks 12.00 MiB, free 12.00 MiB",
               "12.00 MiB are free in chunks that are partly in use", "pleat_device_compact",
               "with growth:frugal only 4.00 MiB of it would be tied");
    ck_assert_ptr_null(strstr(pleat_last_error()->text, "graph"));
    api_free(instance, 0, low, NULL);
    api_free(instance, 0, high, NULL);
    ck_assert_uint_eq(api_stats(instance, 0).tied_granules, 0);
    api_free(instance, 0, api_alloc(instance, 0, 16 * MIB, NULL), NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(a_chunk_larger_than_the_device_is_named)
{
    pleat_devptr ptr;
    pleat instance = api_make(API_PLEAT, "capacity:64M", "chunk_granules:64");
    ck_assert_int_eq(pleat_block_alloc(instance, 0, 1000, NULL, &ptr), PLEAT_ENOMEM_DEVICE);
    api_expect(PLEAT_ENOMEM_DEVICE, "a chunk has 128.00 MiB", "chunk_granules");
    api_unmake(instance);
}
END_TEST

/* ---- what is counted ------------------------------------------------------------------------- */

/* A program holds 40 of the 64 MiB of its limit. When asked for memory, it first claims n_claims
 * times, wrongly, to have freed some. Then, if `helps`, it really frees the memory. */
typedef struct holder {
    pleat_devptr held; /* 0 = nothing */
    unsigned n_claims;
    unsigned n_asked;
    bool helps;
} holder;

static bool free_late(pleat instance, int device, size_t bytes, void *context)
{
    holder *h = context;
    (void)bytes;
    if (h->n_asked++ < h->n_claims) {
        return true;
    }
    if (!h->helps || h->held == 0) {
        return false;
    }
    api_free(instance, device, h->held, NULL);
    h->held = 0;
    return true;
}

static pleat_status ask_block(pleat instance, size_t bytes)
{
    pleat_devptr ptr;
    pleat_status st = pleat_block_alloc(instance, 0, bytes, NULL, &ptr);
    return st == PLEAT_OK ? pleat_block_free(instance, 0, ptr, NULL) : st;
}

static pleat_status ask_with_tag(pleat instance, size_t bytes)
{
    pleat_devptr ptr;
    pleat_status st = pleat_tag_alloc(instance, 0, "weights", bytes, NULL, &ptr);
    return st == PLEAT_OK ? pleat_block_free(instance, 0, ptr, NULL) : st;
}

static pleat_status ask_in_pool(pleat instance, size_t bytes)
{
    const pleat_pool_id id = { 1, 1 };
    ck_assert_int_eq(pleat_pool_begin(instance, 0, id, NULL, NULL, NULL), PLEAT_OK);
    pleat_status st = ask_block(instance, bytes);
    ck_assert_int_eq(pleat_pool_end(instance, 0, id), PLEAT_OK);
    ck_assert_int_eq(pleat_pool_release(instance, 0, id), PLEAT_OK);
    return st;
}

static pleat_status ask_buffer(pleat instance, size_t bytes, bool is_resize)
{
    pleat_devptr buffer;
    ck_assert_int_eq(pleat_buffer_create(instance, 0, bytes, 0, &buffer), PLEAT_OK);
    pleat_status st = is_resize ? pleat_buffer_resize(instance, 0, buffer, bytes, NULL)
                                : pleat_buffer_commit(instance, 0, buffer, 0, bytes, NULL);
    ck_assert_int_eq(pleat_buffer_destroy(instance, 0, buffer, NULL), PLEAT_OK);
    return st;
}

static pleat_status ask_to_resize(pleat instance, size_t bytes)
{
    return ask_buffer(instance, bytes, true);
}

static pleat_status ask_to_commit(pleat instance, size_t bytes)
{
    return ask_buffer(instance, bytes, false);
}

static pleat_status ask_host(pleat instance, size_t bytes)
{
    void *ptr;
    pleat_status st = pleat_host_alloc(instance, 0, bytes, &ptr);
    return st == PLEAT_OK ? pleat_host_free(instance, 0, ptr, PLEAT_HOST_UNUSED) : st;
}

typedef pleat_status (*ask_fn)(pleat instance, size_t bytes);

static const struct {
    const char *conf;
    ask_fn ask;
} askings[] = {
    { "allocator:pleat", ask_with_tag },  { "allocator:pleat", ask_in_pool },
    { "allocator:pleat", ask_to_resize }, { "allocator:pleat", ask_to_commit },
    { "memory:host", ask_host },          { "memory:host,allocator:torch-pinned", ask_host },
};

/* The allocator refuses n_claims + 1 times, and after each the callback is called. */
static void ask_once(pleat instance, ask_fn ask, holder h, uint64_t n_more)
{
    pleat_stats before = api_stats(instance, 0);
    h.held = api_alloc(instance, 0, 40 * MIB, NULL);
    ck_assert_int_eq(pleat_set_pressure_callback(instance, free_late, &h), PLEAT_OK);
    pleat_status st = ask(instance, 50 * MIB);
    ck_assert_msg(st == (n_more > 0 ? PLEAT_ENOMEM_DEVICE : PLEAT_OK), "%s",
                  pleat_last_error()->text);
    ck_assert_uint_eq(h.n_asked, h.n_claims + 1);
    ck_assert_uint_eq(api_stats(instance, 0).num_ooms, before.num_ooms + n_more);
    ck_assert_int_eq(pleat_set_pressure_callback(instance, NULL, NULL), PLEAT_OK);
    if (h.held != 0) {
        api_free(instance, 0, h.held, NULL);
    }
}

static void check_count(const char *conf, ask_fn ask)
{
    char all[256];
    pleat instance;
    snprintf(all, sizeof all, "driver:sim,sim:[capacity:256M],limit:64M,%s", conf);
    ck_assert_int_eq(pleat_create(all, &instance), PLEAT_OK);
    ask_once(instance, ask, (holder){ .n_claims = 0 }, 1);
    ask_once(instance, ask, (holder){ .n_claims = 3 }, 1);
    ask_once(instance, ask, (holder){ .n_claims = 0, .helps = true }, 0);
    ask_once(instance, ask, (holder){ .n_claims = 3, .helps = true }, 0);
    ck_assert_uint_eq(api_stats(instance, 0).num_ooms, 2);
    api_check(instance);
    api_unmake(instance);
}

START_TEST(a_request_of_any_kind_counts_once_and_only_if_it_fails_in_the_end)
{
    check_count(askings[_i].conf, askings[_i].ask);
}
END_TEST

START_TEST(so_does_one_of_any_allocator)
{
    char conf[64];
    snprintf(conf, sizeof conf, "allocator:%s", pl_allocator_name((unsigned)_i));
    check_count(conf, ask_block);
}
END_TEST

SUITE(api_oom)
{
    TCase *judge = tcase_create("judge");
    tcase_add_test(judge, the_verdict_follows_from_the_numbers);
    suite_add_tcase(suite, judge);
    TCase *scenes = tcase_create("scenes");
    tcase_add_checked_fixture(scenes, api_sim_load, NULL);
    tcase_add_loop_test(scenes, full_when_live_memory_and_the_request_exceed_the_device, 0,
                        N_API_ALLOCATORS);
    tcase_add_loop_test(scenes, a_request_larger_than_the_device_is_told, 0, 3 * N_API_ALLOCATORS);
    tcase_add_loop_test(scenes, limit_when_the_device_would_have_room, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(scenes, limit_when_pytorchs_fraction_of_the_device_is_used_up, 0, 2);
    tcase_add_loop_test(scenes, foreign_when_others_hold_the_difference, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(scenes, foreign_when_the_device_is_full_at_its_first_use, 0,
                        N_API_ALLOCATORS);
    tcase_add_loop_test(scenes, foreign_when_not_even_the_driver_s_context_fits, 0,
                        N_API_ALLOCATORS);
    tcase_add_loop_test(scenes, what_is_missing_is_what_helps, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(scenes, a_limit_is_not_to_be_raised_beyond_what_others_leave, 0,
                        N_API_ALLOCATORS);
    tcase_add_loop_test(scenes, refused_when_the_driver_grants_less_than_it_reports, 0,
                        N_API_ALLOCATORS);
    tcase_add_loop_test(scenes, out_of_memory_while_mapping_is_out_of_memory, 0, 2);
    tcase_add_loop_test(scenes, a_full_device_without_room_for_page_tables_is_out_of_memory, 0, 2);
    tcase_add_loop_test(scenes, a_broken_context_is_told_at_once, 0, 2);
    tcase_add_loop_test(scenes, a_trim_that_stops_in_the_middle_leaves_no_hole, 0, 24);
    tcase_add_loop_test(scenes, the_driver_s_own_words_are_told, 0, N_API_ALLOCATORS);
    tcase_add_test(scenes, fragmented_when_a_classic_cache_has_the_bytes_in_pieces);
    tcase_add_test(scenes, pleat_serves_what_fragments_the_classic_cache);
    tcase_add_test(scenes, address_space_when_the_budget_is_spent);
    tcase_add_test(scenes, address_space_when_pools_have_it_all);
    tcase_add_test(scenes, pending_when_waiting_and_ordering_are_forbidden);
    tcase_add_test(scenes, pinned_when_a_captured_graph_holds_the_difference);
    tcase_add_test(scenes, tied_when_chunks_that_are_partly_in_use_hold_the_difference);
    tcase_add_test(scenes, a_chunk_larger_than_the_device_is_named);
    suite_add_tcase(suite, scenes);
    TCase *counts = tcase_create("counts");
    int n_allocators = 0;
    while (pl_allocator_name((unsigned)n_allocators)) {
        n_allocators++;
    }
    tcase_add_checked_fixture(counts, api_sim_load, NULL);
    tcase_add_loop_test(counts, a_request_of_any_kind_counts_once_and_only_if_it_fails_in_the_end,
                        0, sizeof askings / sizeof askings[0]);
    tcase_add_loop_test(counts, so_does_one_of_any_allocator, 0, n_allocators);
    suite_add_tcase(suite, counts);
}
