/* backing_test.c - memory mode: real pages behind mappings; contents appear when work ends. */
#include <setjmp.h>
#include <signal.h>
#include <string.h>

#include "tests/support/sim/sim_world.h"
#include "tests/support/suite.h"

static void begin(void)
{
    world_begin("backing:memory,depth:8,granularity:4K,capacity:1G");
}

static cu_devptr reserve_pages(size_t n)
{
    cu_devptr at;
    ck_ok(cuMemAddressReserve(&at, n * 4096, 0, 0, 0));
    return at;
}

static void allow_pages(cu_devptr at, size_t n, int flags)
{
    cu_access_desc desc = { .location = { .type = CU_LOCATION_DEVICE }, .flags = flags };
    ck_ok(cuMemSetAccess(at, n * 4096, &desc, 1));
}

/* Maps n accessible pages with a handle each. */
static cu_devptr map_pages(size_t n)
{
    cu_mem_prop prop = world_prop(0);
    cu_devptr at = reserve_pages(n);
    for (size_t i = 0; i < n; i++) {
        cu_mem_handle handle;
        ck_ok(cuMemCreate(&handle, 4096, &prop, 0));
        ck_ok(cuMemMap(at + i * 4096, 4096, 0, handle, 0));
        ck_ok(cuMemRelease(handle));
    }
    allow_pages(at, n, CU_ACCESS_READ_WRITE);
    return at;
}

static void unmap_pages(cu_devptr at, size_t n)
{
    ck_ok(cuMemUnmap(at, n * 4096));
    ck_ok(cuMemAddressFree(at, n * 4096));
}

static volatile unsigned char *host(cu_devptr at)
{
    return (volatile unsigned char *)(uintptr_t)at;
}

static sigjmp_buf back;

static void jump_back(int number)
{
    siglongjmp(back, number);
}

/* Whether the host faults when it touches the byte. */
static bool faults(cu_devptr at, bool is_write)
{
    struct sigaction action = { .sa_handler = jump_back };
    struct sigaction old;
    sigaction(SIGSEGV, &action, &old);
    bool has_faulted = sigsetjmp(back, 1) != 0;
    if (!has_faulted) {
        unsigned char value = *host(at);
        if (is_write) {
            *host(at) = value;
        }
    }
    sigaction(SIGSEGV, &old, NULL);
    return has_faulted;
}

START_TEST(addresses_are_real_and_47_bit)
{
    cu_devptr at = map_pages(2);
    ck_assert_uint_lt(at, UINT64_C(1) << 47);
    *host(at + 5) = 7;
    *host(at + 8191) = 9;
    ck_assert_int_eq(*host(at + 5), 7);
    ck_assert_int_eq(*host(at + 8191), 9);
    unmap_pages(at, 2);
}
END_TEST

START_TEST(reservations_are_aligned_as_asked)
{
    cu_devptr at;
    ck_ok(cuMemAddressReserve(&at, 4096, UINT64_C(1) << 30, 0, 0));
    ck_assert_uint_eq(at % (UINT64_C(1) << 30), 0);
    ck_ok(cuMemAddressFree(at, 4096));
}
END_TEST

START_TEST(access_follows_what_was_granted)
{
    cu_mem_prop prop = world_prop(0);
    cu_mem_handle handle;
    cu_devptr at = reserve_pages(1);
    ck_assert(faults(at, false));
    ck_ok(cuMemCreate(&handle, 4096, &prop, 0));
    ck_ok(cuMemMap(at, 4096, 0, handle, 0));
    ck_assert(faults(at, false));
    allow_pages(at, 1, CU_ACCESS_READ);
    ck_assert(!faults(at, false));
    ck_assert(faults(at, true));
    allow_pages(at, 1, CU_ACCESS_READ_WRITE);
    ck_assert(!faults(at, true));
    allow_pages(at, 1, CU_ACCESS_NONE);
    ck_assert(faults(at, false));
    ck_ok(cuMemUnmap(at, 4096));
    ck_assert(faults(at, false));
    ck_ok(cuMemRelease(handle));
    ck_ok(cuMemAddressFree(at, 4096));
}
END_TEST

START_TEST(aliases_show_the_same_bytes)
{
    cu_mem_prop prop = world_prop(0);
    cu_mem_handle handle;
    cu_devptr at = reserve_pages(2);
    ck_ok(cuMemCreate(&handle, 4096, &prop, 0));
    ck_ok(cuMemMap(at, 4096, 0, handle, 0));
    ck_ok(cuMemMap(at + 4096, 4096, 0, handle, 0));
    allow_pages(at, 2, CU_ACCESS_READ_WRITE);
    *host(at + 100) = 42;
    ck_assert_int_eq(*host(at + 4096 + 100), 42);
    ck_ok(cuMemUnmap(at, 4096));
    ck_assert_int_eq(*host(at + 4096 + 100), 42);
    ck_ok(cuMemMap(at, 4096, 0, handle, 0));
    allow_pages(at, 1, CU_ACCESS_READ);
    ck_assert_int_eq(*host(at + 100), 42);
    ck_ok(cuMemRelease(handle));
    unmap_pages(at, 2);
}
END_TEST

START_TEST(contents_stay_with_the_handle_and_go_with_the_memory)
{
    cu_mem_prop prop = world_prop(0);
    cu_mem_handle handle;
    cu_devptr at = reserve_pages(2);
    ck_ok(cuMemCreate(&handle, 4096, &prop, 0));
    ck_ok(cuMemMap(at, 4096, 0, handle, 0));
    allow_pages(at, 1, CU_ACCESS_READ_WRITE);
    *host(at) = 1;
    ck_ok(cuMemUnmap(at, 4096));
    ck_ok(cuMemMap(at + 4096, 4096, 0, handle, 0));
    allow_pages(at + 4096, 1, CU_ACCESS_READ);
    ck_assert_int_eq(*host(at + 4096), 1);
    ck_ok(cuMemUnmap(at + 4096, 4096));
    ck_ok(cuMemRelease(handle));
    ck_ok(cuMemCreate(&handle, 4096, &prop, 0));
    ck_ok(cuMemMap(at, 4096, 0, handle, 0));
    allow_pages(at, 1, CU_ACCESS_READ);
    ck_assert_int_eq(*host(at), 0);
    ck_ok(cuMemRelease(handle));
    ck_ok(cuMemUnmap(at, 4096));
    ck_ok(cuMemAddressFree(at, 2 * 4096));
}
END_TEST

START_TEST(work_writes_when_it_finishes)
{
    cu_stream stream = world_stream();
    cu_devptr at = map_pages(3);
    unsigned char copy[16] = { 0 };
    ck_ok(cuMemsetD8Async(at + 10, 0xab, 5000, stream));
    ck_ok(cuMemcpyDtoHAsync_v2(copy, at + 8, 4, stream));
    ck_assert_int_eq(*host(at + 10), 0);
    ck_ok(cuStreamSynchronize(stream));
    ck_assert_int_eq(*host(at + 9), 0);
    ck_assert_int_eq(*host(at + 10), 0xab);
    ck_assert_int_eq(*host(at + 5009), 0xab);
    ck_assert_int_eq(*host(at + 5010), 0);
    ck_assert_int_eq(copy[1], 0);
    ck_assert_int_eq(copy[2], 0xab);
    ck_ok(cuMemcpyHtoDAsync_v2(at + 4095, "xyz", 3, stream));
    ck_ok(cuStreamWriteValue64_v2(stream, at + 16, UINT64_C(0x1122334455667788), 0));
    ck_assert_int_eq(*host(at + 16), 0xab);
    pleat_sim_advance(0, 8);
    ck_assert_int_eq(*host(at + 4096), 'y');
    ck_assert_int_eq(*host(at + 16), 0x88);
    ck_ok(cuStreamDestroy_v2(stream));
    unmap_pages(at, 3);
}
END_TEST

START_TEST(a_fill_is_verified_by_seed_and_place)
{
    cu_stream stream = world_stream();
    cu_devptr at = map_pages(4);
    for (uint64_t bytes = 1; bytes < 4 * 4096; bytes = bytes * 3 + 1) {
        ck_ok(pleat_sim_fill(stream, at + 3, bytes, bytes));
        ck_ok(pleat_sim_verify(stream, at + 3, bytes, bytes));
        ck_ok(pleat_sim_verify(stream, at + 3, bytes / 2, bytes));
    }
    pleat_sim_finish();
    ck_assert_uint_eq(world_hazards(), 0);
    ck_ok(pleat_sim_fill(stream, at, 8192, 1));
    ck_ok(pleat_sim_verify(stream, at, 8192, 2));
    pleat_sim_finish();
    ck_assert_uint_eq(world_hazards(), 1);
    ck_ok(cuMemsetD8Async(at + 5001, 0, 1, stream));
    ck_ok(pleat_sim_verify(stream, at, 8192, 1));
    pleat_sim_finish();
    pleat_sim_hazard found[2];
    ck_assert_uint_eq(pleat_sim_hazards(found, 2), 2);
    ck_assert_uint_eq(found[1].ptr, at + 5001);
    ck_ok(cuStreamDestroy_v2(stream));
    unmap_pages(at, 4);
    world_end_with(PLEAT_SIM_CONTENTS, 2);
    begin();
}
END_TEST

START_TEST(a_wrong_byte_is_found_at_each_place)
{
    cu_stream stream = world_stream();
    cu_devptr at = map_pages(1) + 5;
    size_t n_wrong = 0;
    for (uint64_t bytes = 1; bytes <= 26; bytes++) {
        for (uint64_t place = 0; place < bytes; place++) {
            ck_ok(pleat_sim_fill(stream, at, bytes, bytes));
            pleat_sim_finish();
            *host(at + bytes) ^= 1; /* none of the verified bytes */
            *host(at + place) ^= 1;
            ck_ok(pleat_sim_verify(stream, at, bytes, bytes));
            pleat_sim_finish();
            pleat_sim_hazard found[26 * 27 / 2];
            ck_assert_uint_eq(pleat_sim_hazards(found, ++n_wrong), n_wrong);
            ck_assert_uint_eq(found[n_wrong - 1].ptr, at + place);
            ck_assert_uint_eq(found[n_wrong - 1].bytes, bytes - place);
        }
    }
    ck_ok(cuStreamDestroy_v2(stream));
    unmap_pages(at - 5, 1);
    world_end_with(PLEAT_SIM_CONTENTS, n_wrong);
    begin();
}
END_TEST

START_TEST(a_wrong_order_shows_as_wrong_bytes)
{
    cu_stream a = world_stream();
    cu_stream b = world_stream();
    cu_devptr at = map_pages(1);
    ck_ok(pleat_sim_fill(a, at, 4096, 1));
    ck_ok(pleat_sim_verify(a, at, 4096, 1));
    ck_ok(pleat_sim_fill(b, at, 4096, 2));
    ck_ok(cuStreamSynchronize(b));
    ck_ok(cuStreamSynchronize(a));
    ck_ok(pleat_sim_verify(b, at, 4096, 2));
    ck_ok(cuStreamSynchronize(b));
    pleat_sim_hazard found[4];
    ck_assert_uint_eq(pleat_sim_hazards(found, 4), 2);
    ck_assert_int_eq(found[0].kind, PLEAT_SIM_RACE);
    ck_assert_int_eq(found[1].kind, PLEAT_SIM_CONTENTS);
    ck_ok(cuStreamDestroy_v2(a));
    ck_ok(cuStreamDestroy_v2(b));
    unmap_pages(at, 1);
    ck_assert_int_eq(pleat_sim_reset(NULL), 0);
    begin();
}
END_TEST

START_TEST(unfinished_work_on_unmapped_memory_touches_nothing)
{
    cu_stream stream = world_stream();
    cu_devptr at = map_pages(2);
    ck_ok(pleat_sim_fill(stream, at, 8192, 1));
    ck_ok(pleat_sim_verify(stream, at, 8192, 1));
    ck_ok(cuMemUnmap(at + 4096, 4096));
    pleat_sim_finish();
    ck_assert_int_eq(*host(at), 0);
    ck_ok(cuStreamDestroy_v2(stream));
    ck_ok(cuMemUnmap(at, 4096));
    ck_ok(cuMemAddressFree(at, 8192));
    world_end_with(PLEAT_SIM_UNMAP_IN_USE, 1);
    begin();
}
END_TEST

START_TEST(linear_memory_is_real_too)
{
    cu_devptr at;
    ck_ok(cuMemAlloc_v2(&at, 5000));
    *host(at + 4999) = 3;
    ck_assert_int_eq(*host(at + 4999), 3);
    ck_ok(cuMemFree_v2(at));
    ck_assert(faults(at, false));
}
END_TEST

START_TEST(a_large_capacity_costs_no_host_memory)
{
    world_end();
    world_begin("backing:memory,capacity:256G,granularity:1G");
    cu_mem_prop prop = world_prop(0);
    cu_mem_handle handle;
    cu_devptr at;
    ck_ok(cuMemCreate(&handle, UINT64_C(256) << 30, &prop, 0));
    ck_ok(cuMemAddressReserve(&at, UINT64_C(256) << 30, 0, 0, 0));
    ck_ok(cuMemMap(at, UINT64_C(256) << 30, 0, handle, 0));
    ck_ok(cuMemRelease(handle));
    ck_ok(cuMemUnmap(at, UINT64_C(256) << 30));
    ck_ok(cuMemAddressFree(at, UINT64_C(256) << 30));
}
END_TEST

START_TEST(more_than_16000_mappings_are_refused_with_a_clear_error)
{
    enum { N = 16000 };
    cu_mem_prop prop = world_prop(0);
    cu_mem_handle handle;
    cu_devptr at = reserve_pages(2 * N);
    cu_devptr block;
    ck_ok(cuMemCreate(&handle, 4096, &prop, 0));
    for (size_t i = 0; i < N; i++) {
        ck_ok(cuMemMap(at + 2 * i * 4096, 4096, 0, handle, 0));
    }
    ck_assert_int_eq(cuMemMap(at + 4096, 4096, 0, handle, 0), CU_OUT_OF_MEMORY);
    ck_assert(strstr(pleat_sim_error(), "16000 mappings") != NULL);
    ck_assert_int_eq(cuMemAlloc_v2(&block, 512), CU_OUT_OF_MEMORY);
    for (size_t i = 0; i < N; i++) {
        ck_ok(cuMemUnmap(at + 2 * i * 4096, 4096));
    }
    ck_ok(cuMemRelease(handle));
    ck_ok(cuMemAddressFree(at, 2 * N * 4096));
}
END_TEST

START_TEST(a_reset_gives_everything_back)
{
    for (size_t i = 0; i < 20; i++) {
        cu_devptr at = map_pages(100);
        *host(at) = 1;
        ck_ok(pleat_sim_fill(NULL, at, 4096, 1));
        ck_assert_int_eq(pleat_sim_reset("backing:memory,granularity:4K"), 0);
        ck_assert(faults(at, false));
        begin();
    }
}
END_TEST

SUITE(sim_backing)
{
    TCase *pages = tcase_create("pages");
    tcase_add_checked_fixture(pages, begin, world_end);
    tcase_add_test(pages, addresses_are_real_and_47_bit);
    tcase_add_test(pages, reservations_are_aligned_as_asked);
    tcase_add_test(pages, access_follows_what_was_granted);
    tcase_add_test(pages, aliases_show_the_same_bytes);
    tcase_add_test(pages, contents_stay_with_the_handle_and_go_with_the_memory);
    tcase_add_test(pages, linear_memory_is_real_too);
    tcase_add_test(pages, a_large_capacity_costs_no_host_memory);
    tcase_add_test(pages, more_than_16000_mappings_are_refused_with_a_clear_error);
    tcase_add_test(pages, a_reset_gives_everything_back);
    suite_add_tcase(suite, pages);
    TCase *contents = tcase_create("contents");
    tcase_add_checked_fixture(contents, begin, world_end);
    tcase_add_test(contents, work_writes_when_it_finishes);
    tcase_add_test(contents, a_fill_is_verified_by_seed_and_place);
    tcase_add_test(contents, a_wrong_byte_is_found_at_each_place);
    tcase_add_test(contents, a_wrong_order_shows_as_wrong_bytes);
    tcase_add_test(contents, unfinished_work_on_unmapped_memory_touches_nothing);
    suite_add_tcase(suite, contents);
}
