/* pinned_test.c - torch-pinned, the model of PyTorch's cache of pinned memory. */
/* labels: unit fault model */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/api/api_sim.h"
#include "tests/support/segments/segments_random.h"
#include "tests/support/suite.h"

static const size_t MIB = 1 << 20;
enum { N_STREAMS = 4, DRIVER_CODE = 999 };

static pleat host;
static void *streams[N_STREAMS];

/* What a stream does ends when `depth` further operations were submitted. */
static void open_cache(const char *sim_conf, const char *more)
{
    char conf[256];
    api_sim_load();
    snprintf(conf, sizeof conf,
             "driver:sim,sim:[backing:memory,%s],memory:host,allocator:torch-pinned%s", sim_conf,
             more);
    pleat_status st = pleat_create(conf, &host);
    ck_assert_msg(st == PLEAT_OK, "%s: %s", conf, pleat_last_error()->text);
    for (int i = 0; i < N_STREAMS; i++) {
        streams[i] = api_stream(host, 0);
    }
}

static void close_cache(void)
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
    api_check(host);
    return ptr;
}

static void put(void *ptr, void *stream)
{
    pleat_status st = pleat_host_free(host, 0, ptr, stream);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
    api_check(host);
}

static void work(void *ptr, size_t bytes, void *stream)
{
    pleat_sim_access access = { .ptr = (uintptr_t)ptr, .bytes = bytes, .is_write = false };
    ck_assert_int_eq(sim.work(stream, &access, 1), 0);
}

static uint64_t held(void)
{
    return api_stats(host, 0).reserved_bytes[0].current;
}

/* ---- what PyTorch does ----------------------------------------------------------------------- */

START_TEST(sizes_are_powers_of_two)
{
    static const size_t asked[] = { 1, 2, 3, 512, 513, 1025, 3 << 20, 4 << 20, 1181116006 };
    static const size_t had[] = { 1, 2, 4, 512, 1024, 2048, 4 << 20, 4 << 20, 1u << 31 };
    uint64_t sum = 0;
    open_cache("depth:4", "");
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        pleat_block_info info;
        void *ptr = get(asked[i]);
        ck_assert_int_eq(pleat_block_query(host, 0, (uintptr_t)ptr, &info), PLEAT_OK);
        ck_assert_uint_eq(info.bytes, had[i]);
        ck_assert_uint_eq(info.requested_bytes, asked[i]);
        sum += had[i];
        ck_assert_uint_eq(held(), sum);
    }
    ck_assert_uint_eq(api_stats(host, 0).num_device_alloc, sizeof asked / sizeof asked[0]);
    pleat_status st = pleat_destroy(host, PLEAT_DESTROY_FORCE);
    ck_assert_int_eq(st, PLEAT_OK);
}
END_TEST

START_TEST(the_block_that_was_freed_last_serves_first)
{
    open_cache("depth:4", "");
    void *a = get(3 * MIB);
    void *b = get(4 * MIB);
    void *c = get(MIB);
    put(a, PLEAT_HOST_UNUSED);
    put(b, PLEAT_HOST_UNUSED);
    put(c, PLEAT_HOST_UNUSED);
    ck_assert_ptr_eq(get(2 * MIB + 1), b);
    ck_assert_ptr_eq(get(4 * MIB), a);
    ck_assert_uint_eq(held(), 9 * MIB);
    void *d = get(2 * MIB); /* of another class, though 1 MiB and more are free */
    ck_assert_uint_eq(held(), 11 * MIB);
    put(a, PLEAT_HOST_UNUSED);
    put(b, PLEAT_HOST_UNUSED);
    put(d, PLEAT_HOST_UNUSED);
    close_cache();
}
END_TEST

/* A request polls the queue up to the first fence that has not passed. */
START_TEST(a_fence_holds_up_those_behind_it)
{
    open_cache("depth:1048576", "");
    void *a = get(MIB);
    void *b = get(MIB);
    work(a, MIB, streams[0]);
    put(a, streams[0]);
    put(b, streams[1]); /* idle stream: its fence has passed, but is behind a's */
    void *c = get(MIB);
    ck_assert(c != a && c != b);
    ck_assert_uint_eq(api_stats(host, 0).pending_bytes, 2 * MIB);
    sim.finish();
    ck_assert_ptr_eq(get(MIB), b);
    ck_assert_ptr_eq(get(MIB), a);
    ck_assert_uint_eq(api_stats(host, 0).pending_bytes, 0);
    put(a, PLEAT_HOST_UNUSED);
    put(b, PLEAT_HOST_UNUSED);
    put(c, PLEAT_HOST_UNUSED);
    ck_assert_uint_eq(held(), 3 * MIB);
    close_cache();
}
END_TEST

START_TEST(every_stream_that_used_it_is_waited_for)
{
    open_cache("depth:1048576", "");
    void *a = get(MIB);
    work(a, MIB, streams[2]);
    ck_assert_int_eq(pleat_host_record_stream(host, 0, a, streams[2]), PLEAT_OK);
    put(a, streams[1]);
    void *b = get(MIB);
    ck_assert_ptr_ne(a, b);
    sim.finish();
    ck_assert_ptr_eq(get(MIB), a);
    put(a, PLEAT_HOST_UNUSED);
    put(b, PLEAT_HOST_UNUSED);
    close_cache();
}
END_TEST

/* PyTorch neither waits nor gives its cache back. */
START_TEST(a_short_host_is_not_helped)
{
    open_cache("host:8M,depth:4", "");
    put(get(4 * MIB), PLEAT_HOST_UNUSED);
    void *ptr = NULL;
    ck_assert_int_eq(pleat_host_alloc(host, 0, 5 * MIB, &ptr), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(held(), 4 * MIB);
    ck_assert_int_eq(pleat_device_trim(host, 0, 0, true, NULL), PLEAT_OK); /* _host_emptyCache */
    ck_assert_uint_eq(held(), 0);
    put(get(5 * MIB), PLEAT_HOST_UNUSED);
    close_cache();
}
END_TEST

START_TEST(a_limit_counts_as_the_hosts_size)
{
    open_cache("depth:4", ",limit:8M");
    void *a = get(3 * MIB);
    void *ptr = NULL;
    ck_assert_int_eq(pleat_host_alloc(host, 0, 5 * MIB, &ptr), PLEAT_ENOMEM_DEVICE);
    void *b = get(4 * MIB);
    put(a, PLEAT_HOST_UNUSED);
    put(b, PLEAT_HOST_UNUSED);
    close_cache();
}
END_TEST

START_TEST(it_is_for_pinned_memory_only)
{
    pleat instance;
    api_sim_load();
    ck_assert_int_eq(pleat_create("driver:sim,allocator:torch-pinned", &instance), PLEAT_ECONF);
    api_expect(PLEAT_ECONF, "torch-pinned", "memory:host");
    ck_assert_int_eq(pleat_create("driver:sim,memory:host,fallback:torch-pinned", &instance),
                     PLEAT_ECONF);
}
END_TEST

START_TEST(mistakes_are_named)
{
    int local;
    open_cache("depth:4", "");
    void *a = get(MIB);
    ck_assert_int_eq(pleat_host_free(host, 0, (char *)a + 512, NULL), PLEAT_EFOREIGN);
    ck_assert_int_eq(pleat_host_free(host, 0, &local, NULL), PLEAT_EFOREIGN);
    ck_assert_int_eq(pleat_host_record_stream(host, 0, &local, NULL), PLEAT_EFOREIGN);
    put(a, NULL);
    ck_assert_int_eq(pleat_host_free(host, 0, a, NULL), PLEAT_EDOUBLEFREE);
    close_cache();
}
END_TEST

/* ---- at length ------------------------------------------------------------------------------- */

typedef struct block {
    unsigned char *ptr; /* NULL = none */
    size_t bytes;
    unsigned stream;
    uint64_t seed;
} block;

enum { N_BLOCKS = 24, N_TURNS = 800, N_SEEDS = 4 };

static void drop(const block *b, random_source *draws)
{
    unsigned other = (unsigned)random_below(draws, N_STREAMS);
    ck_assert_int_eq(sim.verify(streams[b->stream], (uintptr_t)b->ptr, b->bytes, b->seed), 0);
    if (other != b->stream && random_once_in(draws, 3)) {
        api_stream_order(host, 0, streams[b->stream], streams[other]);
        ck_assert_int_eq(sim.verify(streams[other], (uintptr_t)b->ptr, b->bytes, b->seed), 0);
        ck_assert_int_eq(pleat_host_record_stream(host, 0, b->ptr, streams[other]), PLEAT_OK);
    }
    put(b->ptr, streams[b->stream]);
}

START_TEST(random_operations_on_four_streams_keep_contents)
{
    block blocks[N_BLOCKS] = { 0 };
    random_source draws = { (uint64_t)_i };
    open_cache("depth:40", "");
    for (uint64_t turn = 1; turn <= N_TURNS; turn++) {
        block *b = &blocks[random_below(&draws, N_BLOCKS)];
        if (b->ptr != NULL) {
            drop(b, &draws);
            b->ptr = NULL;
            continue;
        }
        b->bytes = random_spread(&draws, 2 * MIB);
        b->ptr = get(b->bytes);
        b->stream = (unsigned)random_below(&draws, N_STREAMS);
        b->seed = turn;
        memset(b->ptr, 0xee, b->bytes);
        ck_assert_int_eq(sim.fill(streams[b->stream], (uintptr_t)b->ptr, b->bytes, b->seed), 0);
        if (random_once_in(&draws, 100)) {
            ck_assert_int_eq(pleat_device_trim(host, 0, 0, random_once_in(&draws, 2), NULL),
                             PLEAT_OK);
        }
    }
    for (int i = 0; i < N_BLOCKS; i++) {
        if (blocks[i].ptr != NULL) {
            drop(&blocks[i], &draws);
        }
    }
    close_cache();
}
END_TEST

START_TEST(each_failing_call_leaves_it_as_it_was)
{
    uint64_t k = 0;
    for (bool has_hit = true; has_hit; k++) {
        open_cache("depth:4", "");
        sim.fail_at(NULL, k, DRIVER_CODE);
        for (int i = 0; i < 4; i++) {
            void *ptr = NULL;
            while (pleat_host_alloc(host, 0, 5 * MIB, &ptr) != PLEAT_OK) {
                ck_assert_msg(sim.n_faults() > 0, "%s", pleat_last_error()->text);
                api_check(host);
            }
            memset(ptr, i, 5 * MIB);
            work(ptr, 5 * MIB, streams[i % 2]);
            while (pleat_host_free(host, 0, ptr, streams[i % 2]) != PLEAT_OK) {
                ck_assert_msg(sim.n_faults() > 0, "%s", pleat_last_error()->text);
                api_check(host);
            }
        }
        pleat_status st = pleat_device_trim(host, 0, 0, true, NULL);
        ck_assert(st == PLEAT_OK || sim.n_faults() > 0);
        has_hit = sim.n_faults() > 0;
        sim.fail_never();
        close_cache();
    }
    ck_assert_uint_gt(k, 5);
}
END_TEST

SUITE(api_pinned)
{
    TCase *tcase = suite_case(suite, "as PyTorch does", NULL, NULL);
    tcase_add_test(tcase, sizes_are_powers_of_two);
    tcase_add_test(tcase, the_block_that_was_freed_last_serves_first);
    tcase_add_test(tcase, a_fence_holds_up_those_behind_it);
    tcase_add_test(tcase, every_stream_that_used_it_is_waited_for);
    tcase_add_test(tcase, a_short_host_is_not_helped);
    tcase_add_test(tcase, a_limit_counts_as_the_hosts_size);
    tcase = suite_case(suite, "refusals", NULL, NULL);
    tcase_add_test(tcase, it_is_for_pinned_memory_only);
    tcase_add_test(tcase, mistakes_are_named);
    tcase = suite_case(suite, "at length", NULL, NULL);
    tcase_add_loop_test(tcase, random_operations_on_four_streams_keep_contents, 0, N_SEEDS);
    tcase_add_test(tcase, each_failing_call_leaves_it_as_it_was);
}
