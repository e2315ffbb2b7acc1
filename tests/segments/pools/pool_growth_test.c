/* pool_growth_test.c - what a private pool holds as its requests grow, and for whom. */
/* labels: unit model */
#include <check.h>
#include <stdlib.h>

#include "tests/support/segments/segments_captures.h"
#include "tests/support/segments/segments_pools.h"
#include "tests/support/segments/segments_random.h"
#include "tests/support/suite.h"

enum { GRANULE = 2 << 20, N_GRANULES = 1024, N_GRAPHS = 12, N_DRAWN = 40 };

#define BYTES ((size_t)N_GRANULES * GRANULE)

static pl_keeper *pool;

static void open_idle(void)
{
    pools_open_with("capacity:2G", PL_CROSS_ORDER, 1000);
    pool = pools_open_idle();
}

static void close_all(void)
{
    pools_release(pool);
    pools_close();
}

/* ---- a pool without graphs ------------------------------------------------------------------- */

START_TEST(what_a_pool_without_graphs_has_freed_serves_others)
{
    pleat_devptr kept = pools_get(pool, 3 * GRANULE, 1);
    pleat_devptr gone = pools_get(pool, BYTES - 10 * GRANULE, 1);
    pleat_put(gone, 1);
    pleat_devptr ptr = pools_get_default(BYTES - 10 * GRANULE, 1 + (unsigned)_i);
    ck_assert_uint_ge(pools_reserved(pool), 3 * GRANULE);
    ck_assert_uint_le(pools_reserved(pool), 10 * GRANULE); /* seven were never created before */
    pleat_put(ptr, 1 + (unsigned)_i);
    pleat_put(kept, 1);
}
END_TEST

START_TEST(what_a_pool_without_graphs_has_freed_is_trimmed)
{
    pleat_devptr ptr = pools_get(pool, 30 * GRANULE, 1);
    pleat_put(ptr, 1);
    ck_assert_uint_eq(pleat_trim(0, true), 30 * GRANULE);
    ck_assert_uint_eq(pools_reserved(pool), 0);
}
END_TEST

/* A larger block has no room between its neighbours. Memory moves to it within the pool. */
START_TEST(a_pool_without_graphs_needs_its_largest_moment_only)
{
    pleat_devptr fence = 0;
    for (size_t n = 100; n < N_GRANULES - 1; n += 100) {
        pleat_devptr ptr = pools_get(pool, n * GRANULE, 1);
        fence = fence == 0 ? pools_get(pool, GRANULE, 1) : fence;
        pleat_put(ptr, 1);
    }
    pleat_put(pools_get(pool, BYTES - GRANULE, 1), 1);
    pleat_put(fence, 1);
}
END_TEST

/* The graph has the address, whoever has freed the block, and when. */
START_TEST(from_its_first_capture_on_a_pool_keeps_what_lives_in_it)
{
    pleat_devptr before = pools_get(pool, 5 * GRANULE, 1);
    pleat_devptr gone = pools_get(pool, 7 * GRANULE, 1);
    pleat_put(gone, 1);
    pools_begin_capture(1);
    pleat_devptr within = pools_get(pool, 2 * GRANULE, 1);
    pleat_put(within, 1);
    cu_graph_exec exec = pools_end_capture(1);
    pleat_put(before, 1);
    (void)pleat_trim(0, true);
    ck_assert_uint_eq(pools_reserved(pool), 7 * GRANULE);
    ck_assert_int_eq(pleat_refused(BYTES - 6 * GRANULE, 2), PLEAT_ENOMEM_DEVICE);
    pools_launch(exec, 2);
    pleat.sim.finish();
    pools_forget(exec);
}
END_TEST

/* A capture that only allocates, and one that only frees, also by address alone: then the last call
 * that named the stream tells of the capture. */
START_TEST(what_a_capture_allocates_or_frees_is_kept)
{
    bool frees = _i > 0;
    pleat_devptr ptr = frees ? pools_get(pool, 5 * GRANULE, 1) : 0;
    pools_begin_capture(1);
    if (_i == 2) {
        captures_name_stream(1);
        ck_assert_int_eq(pleat.a->ops->free_own(pleat.a, ptr), PLEAT_OK);
    } else if (frees) {
        pleat_put(ptr, 1);
    } else {
        ptr = pools_get(pool, 5 * GRANULE, 1);
    }
    cu_graph_exec exec = pools_end_capture(1);
    pleat_put(pleat_get(512, 1), 1); /* shows that the capture has ended */
    if (!frees) {
        pleat_put(ptr, 1);
    }
    (void)pleat_trim(0, true);
    ck_assert_uint_eq(pools_reserved(pool), 5 * GRANULE);
    pools_launch(exec, 2);
    pleat.sim.finish();
    pools_forget(exec);
}
END_TEST

/* A use in a capture counts like a request. */
START_TEST(a_block_that_a_capture_uses_is_kept)
{
    pleat_devptr used = pools_get(pool, 5 * GRANULE, 1);
    pools_begin_capture(2);
    pleat_record(used, 2);
    cu_graph_exec exec = pools_end_capture(2);
    pleat_put(used, 1);
    pleat_put(pleat_get(512, 2), 2); /* shows that the capture has ended */
    (void)pleat_trim(0, true);
    ck_assert_uint_eq(pools_reserved(pool), 5 * GRANULE);
    pools_forget(exec);
}
END_TEST

/* ---- graphs in one pool ---------------------------------------------------------------------- */

/* A graph of a large block that comes and goes, and a block that stays. */
static cu_graph_exec capture_one(size_t large, size_t small, pleat_devptr *kept)
{
    pools_begin_capture(1);
    pleat_devptr ptr = pools_get(pool, large, 1);
    *kept = pools_get(pool, small, 1);
    pleat_put(ptr, 1);
    return pools_end_capture(1);
}

/* What is reserved after N_GRAPHS graphs. */
static uint64_t reserve_for(const size_t *large, const size_t *small)
{
    cu_graph_exec exec[N_GRAPHS];
    pleat_devptr kept[N_GRAPHS];
    for (int i = 0; i < N_GRAPHS; i++) {
        exec[i] = capture_one(large[i], small[i], &kept[i]);
    }
    uint64_t reserved = pools_reserved(pool);
    for (int i = 0; i < N_GRAPHS; i++) {
        pools_launch(exec[i], 2);
        pleat_put(kept[i], 1);
    }
    pleat.sim.finish();
    for (int i = 0; i < N_GRAPHS; i++) {
        pools_forget(exec[i]);
    }
    return reserved;
}

static int by_size(const void *a, const void *b)
{
    size_t x = *(const size_t *)a;
    size_t y = *(const size_t *)b;
    return (x > y) - (x < y);
}

/* Up, down, or as drawn. */
static void draw_large(random_source *r, size_t *large)
{
    for (int i = 0; i < N_GRAPHS; i++) {
        large[i] = random_between(r, 64 * GRANULE, 480 * GRANULE);
    }
    size_t order = random_below(r, 3);
    if (order < 2) {
        qsort(large, N_GRAPHS, sizeof *large, by_size);
    }
    for (int i = 0; order == 1 && i < N_GRAPHS / 2; i++) {
        size_t other = large[N_GRAPHS - 1 - i];
        large[N_GRAPHS - 1 - i] = large[i];
        large[i] = other;
    }
}

static uint64_t most(const size_t *bytes)
{
    uint64_t n = 0;
    for (int i = 0; i < N_GRAPHS; i++) {
        n = bytes[i] > n ? bytes[i] : n;
    }
    return n;
}

static uint64_t sum(const size_t *bytes)
{
    uint64_t n = 0;
    for (int i = 0; i < N_GRAPHS; i++) {
        n += bytes[i];
    }
    return n;
}

/* Small blocks lie apart, so nothing fences the large ones. */
START_TEST(small_blocks_that_stay_cost_their_bytes)
{
    random_source r = { .state = (uint64_t)_i };
    size_t large[N_GRAPHS];
    size_t small[N_GRAPHS];
    draw_large(&r, large);
    for (int i = 0; i < N_GRAPHS; i++) {
        small[i] = random_between(&r, 4 * KIB, GRANULE / 2);
    }
    ck_assert_uint_le(reserve_for(large, small), most(large) + sum(small) + 3 * GRANULE);
}
END_TEST

/* The first that stays fences the first large block. The others find room there. */
START_TEST(large_blocks_that_stay_fence_one_block)
{
    random_source r = { .state = (uint64_t)_i };
    size_t large[N_GRAPHS];
    size_t small[N_GRAPHS];
    draw_large(&r, large);
    for (int i = 0; i < N_GRAPHS; i++) {
        small[i] = random_between(&r, GRANULE / 2 + 1, 4 * GRANULE);
    }
    uint64_t need = large[0] + most(large) + small[0] + 2 * GRANULE;
    ck_assert_uint_le(reserve_for(large, small), need);
}
END_TEST

START_TEST(a_pool_grows_in_place_to_all_of_the_device)
{
    cu_graph_exec exec[10];
    for (size_t i = 0; i < 10; i++) {
        pleat_devptr kept;
        exec[i] = capture_one((100 + 100 * i) * GRANULE, 512, &kept);
        pleat_put(kept, 1);
    }
    ck_assert_uint_le(pools_reserved(pool), (uint64_t)1002 * GRANULE);
    for (size_t i = 0; i < 10; i++) {
        pools_forget(exec[i]);
    }
}
END_TEST

/* In one capture: a block comes back where it was, though memory beside it is settled, and the
 * whole is one run. */
START_TEST(what_a_capture_has_freed_joins_what_is_settled)
{
    pools_begin_capture(1);
    pleat_put(pools_get(pool, 100 * GRANULE, 1), 1);
    cu_graph_exec first = pools_end_capture(1);
    (void)pleat_trim(0, true);
    pools_begin_capture(1);
    pleat_devptr low = pools_get(pool, 40 * GRANULE, 1);
    pleat_put(low, 1);
    ck_assert_uint_eq(pools_get(pool, 30 * GRANULE, 1), low);
    pleat_put(low, 1);
    ck_assert_uint_eq(pools_get(pool, 100 * GRANULE, 1), low);
    pleat_put(low, 1);
    cu_graph_exec second = pools_end_capture(1);
    ck_assert_uint_eq(pools_reserved(pool), 100 * GRANULE);
    pools_forget(first);
    pools_forget(second);
}
END_TEST

/* ---- addresses ------------------------------------------------------------------------------- */

START_TEST(ten_thousand_pools_leave_addresses_to_others)
{
    enum { N_POOLS = 10000 };
    static pl_keeper *pools[N_POOLS];
    for (int i = 0; i < N_POOLS; i++) {
        pleat_devptr ptr;
        ck_assert_int_eq(pleat.a->ops->pools->open(pleat.a, &pools[i]), PLEAT_OK);
        ck_assert_int_eq(
            pleat.a->ops->alloc_asked(pleat.a, pools[i], GRANULE, pleat.streams[1], NULL, &ptr),
            PLEAT_OK);
        ck_assert_int_eq(pleat.a->ops->free(pleat.a, ptr, pleat.streams[1]), PLEAT_OK);
    }
    pleat_stats s;
    pleat.a->ops->stats(pleat.a, &s);
    ck_assert_uint_lt(s.address_bytes, UINT64_C(32) << 40);
    pleat_put(pools_get_default(BYTES - 30 * GRANULE, 2), 2);
    for (int i = 0; i < N_POOLS; i++) {
        pleat.a->ops->pools->release(pleat.a, pools[i]);
    }
}
END_TEST

SUITE(segments_pool_growth)
{
    TCase *tcase = suite_case(suite, "without graphs", open_idle, close_all);
    tcase_add_loop_test(tcase, what_a_pool_without_graphs_has_freed_serves_others, 0, 2);
    tcase_add_test(tcase, what_a_pool_without_graphs_has_freed_is_trimmed);
    tcase_add_test(tcase, a_pool_without_graphs_needs_its_largest_moment_only);
    tcase_add_test(tcase, from_its_first_capture_on_a_pool_keeps_what_lives_in_it);
    tcase_add_loop_test(tcase, what_a_capture_allocates_or_frees_is_kept, 0, 3);
    tcase_add_test(tcase, a_block_that_a_capture_uses_is_kept);
    tcase = suite_case(suite, "graphs", open_idle, close_all);
    tcase_add_loop_test(tcase, small_blocks_that_stay_cost_their_bytes, 0, N_DRAWN);
    tcase_add_loop_test(tcase, large_blocks_that_stay_fence_one_block, 0, N_DRAWN);
    tcase_add_test(tcase, a_pool_grows_in_place_to_all_of_the_device);
    tcase_add_test(tcase, what_a_capture_has_freed_joins_what_is_settled);
    tcase = suite_case(suite, "addresses", open_idle, close_all);
    tcase_add_test(tcase, ten_thousand_pools_leave_addresses_to_others);
}
