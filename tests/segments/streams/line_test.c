/* line_test.c - blocks of one kind that wait for a stream hide none of another kind: each kind has
 * a line of its own (clock.h), since a look at a line is bounded. */
/* labels: unit */
#include <check.h>

#include "segments/pleat/space/space.h"
#include "segments/pleat/streams/handover.h"
#include "segments/pleat/streams/tick.h"
#include "tests/support/segments/segments_pools.h"
#include "tests/support/suite.h"

enum { GRANULE = 2 << 20, MANY = 1200 }; /* more than are looked at in one hold */

static pleat_devptr small[2 * MANY];

static void open_tight(void)
{
    pools_open_with("capacity:128M,depth:1048576", PL_CROSS_ORDER, 0);
    pleat_walk_every(100);
}

static pleat_status ask(pl_keeper *pool, size_t bytes, unsigned stream)
{
    pleat_devptr ptr;
    pleat_status st = pleat.a->ops->alloc_asked(pleat.a, pool, bytes, pleat.streams[stream], NULL,
                                                &ptr);
    if (st == PLEAT_OK) {
        pleat_work(stream, ptr, bytes);
    }
    pleat_assert_sound();
    return st;
}

static void fill_device(pl_keeper *pool, size_t bytes, unsigned stream)
{
    while (ask(pool, bytes, stream) == PLEAT_OK) {
    }
}

/* Small blocks of two streams wait for each other; free granules wait for one of them. */
START_TEST(shared_blocks_hide_no_free_ones)
{
    (void)pleat_get_and_use(512, 3);
    for (size_t i = 0; i < MANY; i++) {
        small[i] = pleat_get_and_use(512, 1);
        pleat_record(small[i], 3);
        pleat_record(small[i], 2);
        pleat_work_after(3, 1, small[i], 512);
        pleat_work_after(2, 3, small[i], 512);
    }
    pleat_devptr large = pleat_get_and_use((size_t)20 * GRANULE, 2);
    fill_device(NULL, GRANULE, 1);
    for (size_t i = 0; i < MANY; i++) {
        pleat_put(small[i], 1);
    }
    pleat_put(large, 2);
    ck_assert_int_eq(ask(NULL, (size_t)20 * GRANULE, 4), PLEAT_OK);
    ck_assert_uint_eq(pleat_counted().host_syncs, 0);
}
END_TEST

/* Free blocks that live ones keep apart wait for a stream, as does a shared block that ticks
 * cover. The first are of the stream that asks, or of another. */
START_TEST(free_blocks_hide_no_shared_ones)
{
    unsigned stream = (unsigned)_i;
    for (size_t i = 0; i < 2 * MANY; i++) {
        small[i] = pleat_get_and_use(512, stream);
    }
    pleat_devptr own_of_1 = pleat_get_and_use(512, 1);
    pleat_devptr own_of_2 = pleat_get_and_use(512, 2);
    pleat_devptr shared = pleat_get_and_use((size_t)20 * GRANULE, 1);
    pleat_record(shared, 2);
    pleat_work_after(2, 1, shared, (size_t)20 * GRANULE);
    fill_device(NULL, GRANULE, 1);
    for (size_t i = 0; i < 2 * MANY; i += 2) {
        pleat_put(small[i], stream);
    }
    pleat_put(shared, 1);
    pleat_record(own_of_2, 1); /* both streams are named, and get their ticks */
    pleat_record(own_of_1, 2);
    ck_assert_int_eq(ask(NULL, (size_t)20 * GRANULE, 4), PLEAT_OK);
    ck_assert_uint_eq(pleat_counted().host_syncs, 0);
}
END_TEST

/* A pool's request looks at memory of the default pool first, of which there is none. */
START_TEST(a_pools_blocks_are_found_among_themselves)
{
    pl_keeper *pool = pools_open_one();
    for (size_t i = 0; i < MANY; i++) {
        small[i] = pools_get(pool, 512, 2);
    }
    fill_device(pool, 64 << 10, 2);
    fill_device(pool, 512, 2);
    for (size_t i = 0; i < MANY; i += 2) {
        pleat_put(small[i], 2);
    }
    ck_assert_int_eq(ask(pool, 512, 4), PLEAT_EPENDING); /* leaves a wish */
    pleat_record(small[1], 2);
    ck_assert_int_eq(ask(pool, 512, 4), PLEAT_OK);
    ck_assert_uint_eq(pleat_counted().host_syncs, 0);
}
END_TEST

/* Another thread may poll between the settling of a request and its handover. */
START_TEST(what_has_passed_but_is_not_settled_is_handed_to_nobody)
{
    pl_space *space = (pl_space *)pleat.a;
    (void)pleat_get_and_use(512, 1);
    pleat_devptr ptr = pleat_get_and_use(GRANULE, 2);
    pleat_put(ptr, 2);
    (void)pl_space_enter(space);
    pl_lane *user = pl_space_lane_of(space, pleat.streams[1], false);
    pl_lane *other = pl_space_lane_of(space, pleat.streams[2], false);
    pl_tick_record(space, other);
    ck_assert_int_eq(pl_tick_wait(space, other, 1000), PLEAT_OK);
    ck_assert_uint_eq(other->n_ticks, 0);
    ck_assert(pl_handover_is_possible(space, other, false)); /* it pends, and would be had */
    size_t n_moved = 1;
    uint64_t n_waits = pleat_calls("cuStreamWaitEvent");
    ck_assert_int_eq(pl_handover(space, user, other, SIZE_MAX, false, &n_moved), PLEAT_OK);
    pl_space_leave(space);
    ck_assert_uint_eq(n_moved, 0);
    ck_assert_uint_eq(pleat_calls("cuStreamWaitEvent"), n_waits);
}
END_TEST

SUITE(segments_line)
{
    TCase *tcase = suite_case(suite, "lines", open_tight, pleat_close);
    tcase_add_test(tcase, shared_blocks_hide_no_free_ones);
    tcase_add_loop_test(tcase, free_blocks_hide_no_shared_ones, 3, 5);
    tcase_add_test(tcase, a_pools_blocks_are_found_among_themselves);
    tcase_add_test(tcase, what_has_passed_but_is_not_settled_is_handed_to_nobody);
}
