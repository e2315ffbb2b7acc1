/* host_test.c - pinned host memory: the public calls, mapped by the driver or pinned whole. */
/* labels: unit fault stress */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/calls/internal.h"
#include "tests/support/api/api_sim.h"
#include "tests/support/segments/segments_random.h"
#include "tests/support/suite.h"
#include "vmm/driver.h"

static const size_t MIB = 1 << 20;
static const size_t GRANULE = 2 << 20;
enum { N_STREAMS = 4, N_WAYS = 2, DRIVER_CODE = 999 };

/* Where the driver maps host memory, and where it does not. */
static const char *const ways[N_WAYS] = { "", ",profile:old_driver" };

static pleat host;
static void *streams[N_STREAMS];

static pleat make(const char *conf)
{
    pleat instance;
    pleat_status st = pleat_create(conf, &instance);
    ck_assert_msg(st == PLEAT_OK, "%s: %s", conf, pleat_last_error()->text);
    return instance;
}

static void open_host(int way, const char *sim_conf, const char *more)
{
    char conf[256];
    api_sim_load();
    snprintf(conf, sizeof conf, "driver:sim,sim:[backing:memory,%s%s],memory:host%s", sim_conf,
             ways[way], more);
    host = make(conf);
    for (int i = 0; i < N_STREAMS; i++) {
        streams[i] = api_stream(host, 0);
    }
}

static void close_host(void)
{
    api_check(host);
    sim.finish();
    pleat_sim_hazard hazard;
    ck_assert_msg(sim.hazards(&hazard, 1) == 0, "%s", hazard.text);
    for (int i = 0; i < N_STREAMS; i++) {
        api_stream_end(host, 0, streams[i]);
    }
    api_unmake(host);
}

static void *get(size_t bytes)
{
    void *ptr = NULL;
    pleat_status st = pleat_host_alloc(host, 0, bytes, &ptr);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
    ck_assert_uint_eq((uintptr_t)ptr % 512, 0);
    return ptr;
}

static void put(void *ptr, void *stream)
{
    pleat_status st = pleat_host_free(host, 0, ptr, stream);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
}

static void work(void *ptr, size_t bytes, void *stream)
{
    pleat_sim_access access = { .ptr = (uintptr_t)ptr, .bytes = bytes, .is_write = false };
    ck_assert_int_eq(sim.work(stream, &access, 1), 0);
}

/* ---- pinned memory --------------------------------------------------------------------------- */

START_TEST(the_host_uses_it_at_once_and_no_device_pays)
{
    open_host(_i, "capacity:8M,depth:4", "");
    unsigned char *ptr = get(24 * MIB);
    memset(ptr, 0x5a, 24 * MIB);
    work(ptr, 24 * MIB, streams[0]);
    ck_assert_int_eq(ptr[24 * MIB - 1], 0x5a);
    ck_assert_uint_eq(api_sim_counts().physical_bytes, 0);
    ck_assert_uint_ge(api_sim_counts().host_bytes, 24 * MIB);
    ck_assert_uint_eq(api_stats(host, 0).allocated_bytes[0].current, 24 * MIB);
    put(ptr, streams[0]);
    sim.finish();
    ck_assert_int_eq(pleat_device_trim(host, 0, 0, true, NULL), PLEAT_OK);
    ck_assert_uint_eq(api_sim_counts().host_bytes, 0);
    close_host();
}
END_TEST

START_TEST(unused_memory_serves_again_without_the_driver)
{
    open_host(_i, "depth:4", "");
    put(get(3 * MIB), PLEAT_HOST_UNUSED);
    void *first = get(3 * MIB);
    put(first, PLEAT_HOST_UNUSED);
    uint64_t n_calls = api_sim_counts().calls;
    for (int i = 0; i < 100; i++) {
        void *ptr = get(3 * MIB);
        ck_assert_ptr_eq(ptr, first);
        put(ptr, PLEAT_HOST_UNUSED);
    }
    uint64_t n_most = _i == 0 ? 0 : 1000; /* the second cache queries its stream */
    ck_assert_uint_le(api_sim_counts().calls - n_calls, n_most);
    close_host();
}
END_TEST

/* PyTorch rounds 1.1 GiB up to 2 GiB. */
START_TEST(a_large_tensor_takes_no_more_than_it_has)
{
    size_t bytes = (size_t)(1.1 * 1024) * MIB;
    open_host(_i, "depth:1048576", "");
    for (int i = 0; i < 20; i++) {
        char *ptr = get(bytes);
        ptr[bytes - 1] = 1;
        work(ptr, bytes, streams[i % N_STREAMS]);
        put(ptr, streams[i % N_STREAMS]);
        sim.finish();
    }
    ck_assert_uint_le(api_stats(host, 0).resident_bytes, bytes + bytes / 100);
    ck_assert_uint_le(api_sim_counts().host_bytes, bytes + bytes / 100);
    close_host();
}
END_TEST

/* ---- under work ------------------------------------------------------------------------------ */

START_TEST(what_work_uses_serves_nobody_before_it_is_over)
{
    open_host(_i, "depth:1048576", ",wait_ms:0");
    void *a = get(8 * MIB);
    work(a, 8 * MIB, streams[0]);
    put(a, streams[0]);
    char *b = get(8 * MIB);
    ck_assert_ptr_ne(b, a);
    work(b, 8 * MIB, streams[1]);
    ck_assert_int_eq(pleat_host_record_stream(host, 0, b, streams[1]), PLEAT_OK);
    put(b, PLEAT_HOST_UNUSED);
    void *c = get(8 * MIB);
    ck_assert_ptr_ne(c, a);
    ck_assert_ptr_ne(c, b);
    sim.finish();
    void *d = get(8 * MIB);
    ck_assert(d == a || _i == 1);
    put(c, PLEAT_HOST_UNUSED);
    put(d, PLEAT_HOST_UNUSED);
    close_host();
}
END_TEST

START_TEST(a_short_host_waits_for_work)
{
    open_host(0, "host:32M,depth:1048576", ",chunks:granule,reserve_mb:0");
    char *a = get(30 * MIB);
    work(a, 30 * MIB, streams[2]);
    put(a, streams[2]);
    char *b = get(30 * MIB);
    memset(b, 1, 30 * MIB);
    ck_assert_uint_gt(api_stats(host, 0).host_syncs, 0);
    ck_assert_uint_eq(api_stats(host, 0).stream_waits, 0);
    put(b, PLEAT_HOST_UNUSED);
    close_host();
}
END_TEST

typedef struct block {
    unsigned char *ptr; /* NULL = none */
    size_t bytes;
    unsigned stream; /* N_STREAMS = it is the host's alone */
    uint64_t seed;
} block;

enum { N_BLOCKS = 24, N_TURNS = 1500 };

/* Data written and compared by the host alone. Such a block is freed unused, and serves again at
 * once. */
static void write_alone(const block *b)
{
    memset(b->ptr, (int)(b->seed & 0xff), b->bytes);
}

static void free_alone(const block *b)
{
    bool is_kept = true;
    for (size_t i = 0; i < b->bytes; i++) {
        is_kept = is_kept && b->ptr[i] == (b->seed & 0xff);
    }
    ck_assert(is_kept);
    put(b->ptr, PLEAT_HOST_UNUSED);
}

/* A stream fills a block and compares it later. The host writes to its blocks at once. */
START_TEST(random_operations_on_four_streams_keep_contents)
{
    block blocks[N_BLOCKS] = { 0 };
    random_source draws = { (uint64_t)_i };
    open_host(_i % N_WAYS, "depth:40", ",limit:96M,reserve_mb:0");
    for (uint64_t turn = 1; turn <= N_TURNS; turn++) {
        block *b = &blocks[random_below(&draws, N_BLOCKS)];
        if (b->ptr != NULL && b->stream == N_STREAMS) {
            free_alone(b);
            b->ptr = NULL;
            continue;
        }
        if (b->ptr != NULL) {
            unsigned other = (unsigned)random_below(&draws, N_STREAMS);
            ck_assert_int_eq(sim.verify(streams[b->stream], (uintptr_t)b->ptr, b->bytes, b->seed),
                             0);
            if (other != b->stream && random_once_in(&draws, 3)) {
                api_stream_order(host, 0, streams[b->stream], streams[other]);
                ck_assert_int_eq(sim.verify(streams[other], (uintptr_t)b->ptr, b->bytes, b->seed),
                                 0);
                ck_assert_int_eq(pleat_host_record_stream(host, 0, b->ptr, streams[other]),
                                 PLEAT_OK);
            }
            put(b->ptr, streams[b->stream]);
            b->ptr = NULL;
            continue;
        }
        void *ptr;
        b->bytes = random_spread(&draws, random_once_in(&draws, 2) ? 6 * MIB : MIB / 16);
        pleat_status st = pleat_host_alloc(host, 0, b->bytes, &ptr);
        if (st != PLEAT_OK) {
            ck_assert_int_eq(st, PLEAT_ENOMEM_DEVICE);
            continue;
        }
        b->ptr = ptr;
        b->stream = (unsigned)random_below(&draws, N_STREAMS);
        b->seed = turn;
        if (random_once_in(&draws, 3)) {
            b->stream = N_STREAMS; /* none */
            write_alone(b);
            continue;
        }
        memset(b->ptr, 0xee, b->bytes);
        ck_assert_int_eq(sim.fill(streams[b->stream], (uintptr_t)b->ptr, b->bytes, b->seed), 0);
    }
    for (int i = 0; i < N_BLOCKS; i++) {
        if (blocks[i].ptr != NULL) {
            unsigned stream = blocks[i].stream;
            put(blocks[i].ptr, stream == N_STREAMS ? PLEAT_HOST_UNUSED : streams[stream]);
        }
    }
    close_host();
}
END_TEST

/* ---- unused memory -------------------------------------------------------------------------- */

enum { N_PAIRS = 3000 };

/* Exact in all figures. */
START_TEST(what_was_freed_unused_serves_again_without_the_driver)
{
    open_host(0, "depth:4", "");
    put(get(4096), PLEAT_HOST_UNUSED);
    for (int i = 0; i < N_PAIRS; i++) {
        put(get(4096), PLEAT_HOST_UNUSED);
    }
    ck_assert_uint_eq(api_stats(host, 0).allocation[0].current, 0);
    ck_assert_uint_eq(api_stats(host, 0).allocation[0].allocated, N_PAIRS + 1);
    ck_assert_uint_eq(api_stats(host, 0).allocated_bytes[0].peak, 4096);
    void *a = get(4096);
    put(a, PLEAT_HOST_UNUSED);
    uint64_t n_calls = api_sim_counts().calls;
    ck_assert_ptr_eq(get(4096), a);
    ck_assert_uint_eq(api_sim_counts().calls, n_calls);
    put(a, PLEAT_HOST_UNUSED);
    ck_assert_int_eq(pleat_device_trim(host, 0, 0, true, NULL), PLEAT_OK);
    ck_assert_uint_eq(api_sim_counts().host_bytes, 0);
    close_host();
}
END_TEST

/* A use that was named keeps the block away from others, whatever the free says. */
START_TEST(what_a_stream_uses_is_not_unused)
{
    open_host(0, "depth:1048576", ",wait_ms:0");
    for (int i = 0; i < N_PAIRS; i++) {
        put(get(4096), PLEAT_HOST_UNUSED);
    }
    for (int i = 0; i < 3; i++) {
        char *a = get(4096);
        work(a, 4096, streams[i]);
        if (i < 2) {
            ck_assert_int_eq(pleat_host_record_stream(host, 0, a, streams[i]), PLEAT_OK);
        }
        put(a, i < 2 ? PLEAT_HOST_UNUSED : streams[i]);
        char *b = get(4096);
        ck_assert_ptr_ne(a, b);
        memset(b, 1, 4096);
        put(b, PLEAT_HOST_UNUSED);
        sim.finish();
    }
    close_host();
}
END_TEST

START_TEST(a_block_freed_twice_is_named)
{
    open_host(0, "depth:4", "");
    for (int i = 0; i < N_PAIRS; i++) {
        put(get(4096), PLEAT_HOST_UNUSED);
    }
    void *a = get(4096);
    put(a, PLEAT_HOST_UNUSED);
    ck_assert_int_ne(pleat_host_free(host, 0, a, PLEAT_HOST_UNUSED), PLEAT_OK);
    ck_assert_int_ne(pleat_host_free(host, 0, a, streams[0]), PLEAT_OK);
    ck_assert_int_ne(pleat_host_record_stream(host, 0, a, streams[0]), PLEAT_OK);
    close_host();
}
END_TEST

/* ---- refusals -------------------------------------------------------------------------------- */

START_TEST(a_limit_is_kept)
{
    open_host(_i, "depth:4", ",limit:64M");
    void *a = get(60 * MIB);
    void *b = NULL;
    ck_assert_int_eq(pleat_host_alloc(host, 0, 8 * MIB, &b), PLEAT_ENOMEM_DEVICE);
    ck_assert_ptr_null(b);
    api_expect(PLEAT_ENOMEM_DEVICE, "limit");
    put(a, PLEAT_HOST_UNUSED);
    put(get(8 * MIB), PLEAT_HOST_UNUSED);
    close_host();
}
END_TEST

START_TEST(mistakes_are_named)
{
    void *ptr = NULL;
    open_host(0, "depth:4", "");
    ck_assert_int_eq(pleat_host_alloc(host, 0, 0, &ptr), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_host_alloc(host, 0, 1, NULL), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_host_alloc(host, 0, SIZE_MAX, &ptr), PLEAT_ESIZE);
    ck_assert_int_eq(pleat_host_alloc(host, 7, 1, &ptr), PLEAT_EDEVICE);
    ck_assert_int_eq(pleat_host_free(host, 0, &ptr, NULL), PLEAT_EFOREIGN);
    ptr = get(1);
    put(ptr, NULL);
    ck_assert_int_ne(pleat_host_free(host, 0, ptr, NULL), PLEAT_OK);
    close_host();
    pleat gpu = api_make(API_PLEAT, "depth:4", "");
    ck_assert_int_eq(pleat_host_alloc(gpu, 0, 1, &ptr), PLEAT_ENOTSUP);
    api_expect(PLEAT_ENOTSUP, "memory:host");
    api_unmake(gpu);
}
END_TEST

START_TEST(each_failing_call_leaves_it_as_it_was)
{
    uint64_t k = 0;
    for (bool has_hit = true; has_hit; k++) {
        open_host(_i, "depth:4", "");
        sim.fail_at(NULL, k, DRIVER_CODE);
        for (int i = 0; i < 4; i++) {
            void *ptr = NULL;
            while (pleat_host_alloc(host, 0, 5 * MIB, &ptr) != PLEAT_OK) {
                ck_assert_msg(sim.n_faults() > 0, "%s", pleat_last_error()->text);
                ck_assert_ptr_null(ptr);
            }
            memset(ptr, i, 5 * MIB);
            work(ptr, 5 * MIB, streams[i % 2]);
            while (pleat_host_free(host, 0, ptr, streams[i % 2]) != PLEAT_OK) {
                ck_assert_msg(sim.n_faults() > 0, "%s", pleat_last_error()->text);
            }
        }
        has_hit = sim.n_faults() > 0;
        sim.fail_never();
        close_host();
    }
    ck_assert_uint_gt(k, 5);
}
END_TEST

/* ---- beside the rest of pleat ---------------------------------------------------------------- */

START_TEST(buffers_of_host_memory_grow_in_place)
{
    open_host(0, "depth:4", "");
    pleat_devptr buffer = 0;
    ck_assert_int_eq(pleat_buffer_create(host, 0, 64 * MIB, 0, &buffer), PLEAT_OK);
    unsigned char *bytes = (unsigned char *)(uintptr_t)buffer;
    for (size_t n = 1; n <= 32; n++) {
        ck_assert_int_eq(pleat_buffer_resize(host, 0, buffer, n * MIB, streams[0]), PLEAT_OK);
        memset(bytes + (n - 1) * MIB, (int)n, MIB);
    }
    for (size_t n = 1; n <= 32; n++) {
        ck_assert_int_eq(bytes[n * MIB - 1], (int)n);
    }
    ck_assert_uint_eq(api_sim_counts().host_bytes, 32 * MIB);
    ck_assert_uint_eq(32 * MIB % GRANULE, 0);
    ck_assert_int_eq(pleat_buffer_destroy(host, 0, buffer, streams[0]), PLEAT_OK);
    close_host();
}
END_TEST

static void *get_and_put(void *failed)
{
    for (size_t i = 1; i < 400; i++) {
        void *ptr;
        if (pleat_host_alloc(host, 0, i * 4096 % (3 * MIB) + 1, &ptr) != PLEAT_OK) {
            *(bool *)failed = true;
            break;
        }
        *(char *)ptr = 1;
        void *stream = i % 3 == 0 ? streams[i % N_STREAMS] : PLEAT_HOST_UNUSED;
        *(bool *)failed = *(bool *)failed || pleat_host_free(host, 0, ptr, stream) != PLEAT_OK;
    }
    return NULL;
}

/* A driver answers "out of memory" for a node without any. Then memory is pinned instead. */
START_TEST(where_the_driver_maps_no_host_memory_it_is_pinned)
{
    pleat_device_info info;
    api_sim_load();
    host = make("driver:sim,sim:[backing:memory,unkind:[no_host_numa]],memory:host");
    void *ptr = get(3 * MIB);
    memset(ptr, 1, 3 * MIB);
    ck_assert_int_eq(pleat_device_query(host, 0, &info), PLEAT_OK);
    ck_assert_ptr_nonnull(strstr(info.note, "cuMemCreate answers CUDA_ERROR_OUT_OF_MEMORY"));
    ck_assert_int_eq(pleat_host_free(host, 0, ptr, PLEAT_HOST_UNUSED), PLEAT_OK);
    api_unmake(host);
}
END_TEST

/* The driver would end the process. */
START_TEST(where_the_driver_may_crash_it_is_pinned)
{
    pleat_device_info info;
    api_sim_load();
    host = make("driver:sim,sim:[backing:memory,unkind:[host_numa_crash]],memory:host");
    void *ptr = get(3 * MIB);
    memset(ptr, 1, 3 * MIB);
    ck_assert_int_eq(pleat_device_query(host, 0, &info), PLEAT_OK);
    ck_assert_str_eq(info.allocator, "torch-native");
    ck_assert_ptr_nonnull(strstr(info.note, "before CUDA 13.2"));
    ck_assert_ptr_nonnull(strstr(info.note, "host_node:0"));
    ck_assert_int_eq(pleat_host_free(host, 0, ptr, PLEAT_HOST_UNUSED), PLEAT_OK);
    api_unmake(host);
}
END_TEST

START_TEST(threads_share_it)
{
    pthread_t threads[4];
    bool failed[4] = { false };
    open_host(_i, "depth:4", "");
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, get_and_put, &failed[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        ck_assert(!failed[i]);
    }
    close_host();
}
END_TEST

SUITE(api_host)
{
    TCase *tcase = suite_case(suite, "memory", NULL, NULL);
    tcase_add_loop_test(tcase, the_host_uses_it_at_once_and_no_device_pays, 0, N_WAYS);
    tcase_add_loop_test(tcase, unused_memory_serves_again_without_the_driver, 0, N_WAYS);
    tcase_add_loop_test(tcase, a_large_tensor_takes_no_more_than_it_has, 0, N_WAYS);
    suite_one_thread(tcase);
    tcase = suite_case(suite, "under work", NULL, NULL);
    suite_one_thread(tcase);
    tcase_add_loop_test(tcase, what_work_uses_serves_nobody_before_it_is_over, 0, N_WAYS);
    tcase_add_test(tcase, a_short_host_waits_for_work);
    tcase_add_loop_test(tcase, random_operations_on_four_streams_keep_contents, 0, 8);
    tcase = suite_case(suite, "unused", NULL, NULL);
    suite_one_thread(tcase);
    tcase_add_test(tcase, what_was_freed_unused_serves_again_without_the_driver);
    tcase_add_test(tcase, what_a_stream_uses_is_not_unused);
    tcase_add_test(tcase, a_block_freed_twice_is_named);
    tcase = suite_case(suite, "refusals", NULL, NULL);
    suite_one_thread(tcase);
    tcase_add_loop_test(tcase, a_limit_is_kept, 0, N_WAYS);
    tcase_add_test(tcase, mistakes_are_named);
    tcase_add_loop_test(tcase, each_failing_call_leaves_it_as_it_was, 0, N_WAYS);
    tcase = suite_case(suite, "beside", NULL, NULL);
    suite_one_thread(tcase);
    tcase_add_test(tcase, buffers_of_host_memory_grow_in_place);
    tcase = suite_case(suite, "threads", NULL, NULL);
    tcase_add_loop_test(tcase, threads_share_it, 0, N_WAYS);
    tcase = suite_case(suite, "pinned instead", NULL, NULL);
    tcase_add_test(tcase, where_the_driver_maps_no_host_memory_it_is_pinned);
    tcase_add_test(tcase, where_the_driver_may_crash_it_is_pinned);
}
