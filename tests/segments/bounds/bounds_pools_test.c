/* bounds_pools_test.c - how much one hold of the device lock touches where there are very many
 * private pools, or were. Counted as in bounds_test.c. */
/* labels: unit */
#include <check.h>

#include "segments/pleat/space/keeper.h"
#include "tests/support/own.h"
#include "tests/support/segments/segments_captures.h"
#include "tests/support/suite.h"
#include "vmm/base/lock.h"

enum { OWN = 1, OTHER = 2, THIRD = 3, N_POOLS = 5000 };

#define GRANULE (2 * MIB)

static pl_keeper *pools[N_POOLS];
static pleat_devptr blocks[N_POOLS];
static cu_graph graphs[N_POOLS];

static void open_on(const char *sim_conf, uint64_t address_bytes)
{
    pl_device_options device_options = { .address_budget_bytes = address_bytes };
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    SET_OWN(pleat, &options, reserve_bytes, 0);
    pleat_open_device(sim_conf, &device_options, &options);
    pleat_walk_every(1000000);
    for (size_t i = 0; i < N_POOLS; i++) {
        ck_assert_int_eq(pleat.a->ops->pools->open(pleat.a, &pools[i]), PLEAT_OK);
    }
}

/* Open on a device that is full with a granule per pool. */
static void open_pools(void)
{
    open_on("capacity:10200M,depth:1048576", 0);
}

/* Open on a device with more memory than there are addresses. */
static void open_large_pools(void)
{
    open_on("capacity:640200M,depth:1048576", 512 * GIB);
}

static pleat_status try_get(pl_keeper *pool, size_t bytes, unsigned stream, pleat_devptr *out)
{
    pl_allocator *a = pleat.a;
    return pool != NULL ? a->ops->alloc_asked(a, pool, bytes, pleat.streams[stream], NULL, out)
                        : a->ops->alloc(a, bytes, pleat.streams[stream], out);
}

static pleat_devptr get(pl_keeper *pool, size_t bytes, unsigned stream)
{
    pleat_devptr ptr = 0;
    ck_assert_int_eq(try_get(pool, bytes, stream, &ptr), PLEAT_OK);
    return ptr;
}

static void put(pleat_devptr ptr, unsigned stream)
{
    ck_assert_int_eq(pleat.a->ops->free(pleat.a, ptr, pleat.streams[stream]), PLEAT_OK);
}

/* Served or refused, as memory is left. */
static void ask(pl_keeper *pool, size_t bytes, unsigned stream)
{
    pleat_devptr ptr;
    if (try_get(pool, bytes, stream, &ptr) == PLEAT_OK) {
        put(ptr, stream);
    }
}

static void refuse(pl_keeper *pool, unsigned stream)
{
    pleat_devptr ptr;
    ck_assert_int_eq(try_get(pool, GIB, stream, &ptr), PLEAT_ENOMEM_DEVICE);
}

static void fill_pools(void)
{
    for (size_t i = 0; i < N_POOLS; i++) {
        blocks[i] = get(pools[i], GRANULE, OWN);
    }
    pl_lock_reset_touched();
}

/* A block for each pool that fills the pool's first segment. Then no memory is left. */
static void fill_segments(void)
{
    const pl_area area = { .class = PL_CLASS_LARGE };
    for (size_t i = 0; i < N_POOLS; i++) {
        blocks[i] = get(pools[i], pl_keeper_want((pl_space *)pleat.a, &area) * GRANULE, OWN);
    }
    pleat_stats s;
    pleat.a->ops->stats(pleat.a, &s);
    ck_assert_int_eq(pleat.a->ops->set_limit(pleat.a, s.resident_bytes), PLEAT_OK);
    pl_lock_reset_touched();
}

static void empty_pools(void)
{
    for (size_t i = 0; i < N_POOLS; i++) {
        put(blocks[i], OWN);
    }
}

static void release_pools(void)
{
    for (size_t i = 0; i < N_POOLS; i++) {
        pleat.a->ops->pools->release(pleat.a, pools[i]);
    }
}

static void see_nothing(void *context, const pl_piece *piece)
{
    ++*(size_t *)context;
    ck_assert_ptr_nonnull(piece);
}

/* Further actions of a program beside the pools, with memory left or without. */
static void do_all_else(void)
{
    uint64_t released;
    pleat_stats s;
    size_t n_seen = 0;
    pleat_devptr from = 0;
    pleat_compaction told;
    ask(NULL, 8 * GIB, THIRD);
    ask(pools[0], 8 * GIB, THIRD);
    pleat.a->ops->stats(pleat.a, &s);
    pleat.a->ops->reset_peaks(pleat.a);
    while (pleat.a->ops->visit_some(pleat.a, &from, see_nothing, &n_seen)) {
    }
    ck_assert_int_eq(pleat.a->ops->trim(pleat.a, 0, true, &released), PLEAT_OK);
    ck_assert_int_eq(pleat.a->ops->set_limit(pleat.a, s.resident_bytes), PLEAT_OK);
    ck_assert_int_eq(pleat.a->ops->set_limit(pleat.a, 0), PLEAT_OK);
    (void)!pleat.a->ops->compact(pleat.a, 0, false, &told);
}

static void assert_bounded(void)
{
    ck_assert_uint_le(pl_lock_most_touched(), PL_LOCK_MOST_TOUCHED);
    pleat_assert_sound();
}

START_TEST(very_many_pools_live)
{
    fill_pools();
    do_all_else();
    empty_pools();
    do_all_else();
    pleat_renew_stream(OWN);
    do_all_else();
    assert_bounded();
    release_pools();
    assert_bounded();
}
END_TEST

/* All may use their memory. A new pool asks for some of it. */
START_TEST(very_many_pools_were_released)
{
    fill_pools();
    empty_pools();
    release_pools();
    ck_assert_int_eq(pleat.a->ops->pools->open(pleat.a, &pools[0]), PLEAT_OK);
    put(get(NULL, 9 * GIB, OTHER), OTHER);
    pleat_devptr ptr = get(pools[0], 9 * GIB, OTHER);
    do_all_else();
    put(ptr, OTHER);
    do_all_else();
    pleat.a->ops->pools->release(pleat.a, pools[0]);
    assert_bounded();
}
END_TEST

/* Half of the pools' blocks still live, and the others wait for work. */
START_TEST(very_many_pools_were_released_with_blocks)
{
    fill_pools();
    for (size_t i = 0; i < N_POOLS; i += 2) {
        pleat_work(OWN, blocks[i], GRANULE);
        put(blocks[i], OWN);
    }
    release_pools();
    ck_assert_int_eq(pleat.a->ops->pools->open(pleat.a, &pools[0]), PLEAT_OK);
    captures_begin(THIRD);
    ask(NULL, 8 * GIB, THIRD);
    ask(pools[0], 8 * GIB, THIRD);
    captures_end(THIRD);
    do_all_else();
    pleat.sim.finish();
    do_all_else();
    pleat.a->ops->pools->release(pleat.a, pools[0]);
    assert_bounded();
}
END_TEST

/* The pools' segments have no free memory and no holes. So a search skips them. */
START_TEST(very_many_full_pools_were_released)
{
    fill_segments();
    release_pools();
    ck_assert_int_eq(pleat.a->ops->pools->open(pleat.a, &pools[0]), PLEAT_OK);
    captures_begin(THIRD);
    refuse(NULL, THIRD);
    refuse(pools[0], THIRD);
    captures_end(THIRD);
    refuse(NULL, THIRD);
    refuse(pools[0], OTHER);
    pleat.a->ops->pools->release(pleat.a, pools[0]);
    assert_bounded();
}
END_TEST

START_TEST(very_many_pools_drain)
{
    for (size_t i = 0; i < N_POOLS; i++) {
        captures_begin(OWN);
        put(get(pools[i], GRANULE, OWN), OWN);
        graphs[i] = captures_end_with_graph(OWN);
    }
    pl_lock_reset_touched();
    release_pools();
    ck_assert_int_eq(pleat.a->ops->pools->open(pleat.a, &pools[0]), PLEAT_OK);
    do_all_else();
    for (size_t i = 0; i < N_POOLS; i++) {
        captures_destroy(graphs[i]);
    }
    do_all_else();
    pleat.a->ops->pools->release(pleat.a, pools[0]); /* the pool owned that memory */
    put(get(NULL, 9 * GIB, OTHER), OTHER);
    assert_bounded();
}
END_TEST

SUITE(segments_bounds_pools)
{
    TCase *tcase = suite_case(suite, "pools", open_pools, pleat_close);
    tcase_add_test(tcase, very_many_pools_live);
    tcase_add_test(tcase, very_many_pools_were_released);
    tcase_add_test(tcase, very_many_pools_were_released_with_blocks);
    tcase_add_test(tcase, very_many_pools_drain);
    TCase *large = suite_case(suite, "large pools", open_large_pools, pleat_close);
    tcase_add_test(large, very_many_full_pools_were_released);
}
