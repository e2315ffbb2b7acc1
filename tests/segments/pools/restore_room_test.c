/* restore_room_test.c - restores that make the map of live blocks grow, and how much one hold of
 * the device lock touches. Counted in debug builds (vmm/base/lock.h). */
/* labels: unit */
#include <check.h>

#include "segments/base/roster.h"
#include "segments/pleat/space/space.h"
#include "tests/support/segments/segments_pools.h"
#include "tests/support/suite.h"
#include "vmm/base/lock.h"
#include "vmm/base/meta.h"

/* These blocks fill half of the map's 2^14 slots in the second pool. */
enum { N_DEFAULT = 3000, N_FIRST = 6000, N_SECOND = 8000 };

static pl_keeper *pools[2];
static pl_roster rosters[2];
static pleat_devptr blocks[N_SECOND];

static size_t n_unmoved(void)
{
    return ((pl_space *)pleat.a)->blocks.live.n_unmoved;
}

static pleat_devptr get(pl_keeper *in)
{
    const pl_allocator_ops *ops = pleat.a->ops;
    pleat_devptr ptr = 0;
    pleat_status st = in != NULL ? ops->alloc_asked(pleat.a, in, 512, pleat.streams[1], NULL, &ptr)
                                 : ops->alloc(pleat.a, 512, pleat.streams[1], &ptr);
    ck_assert_int_eq(st, PLEAT_OK);
    return ptr;
}

static void fill(unsigned i, size_t n)
{
    pools[i] = pools_open_one();
    for (size_t k = 0; k < n; k++) {
        blocks[k] = get(pools[i]);
    }
    ck_assert_int_eq(pleat.a->ops->pools->save(pleat.a, pools[i], &rosters[i]), PLEAT_OK);
    for (size_t k = 0; k < n; k++) {
        ck_assert_int_eq(pleat.a->ops->free(pleat.a, blocks[k], pleat.streams[1]), PLEAT_OK);
    }
}

static pleat_status restore(unsigned i)
{
    pl_restored told;
    pleat_status st = pleat.a->ops->pools->restore(pleat.a, pools[i], &rosters[i], false, &told);
    if (st == PLEAT_OK) {
        pleat.a->ops->pools->drop_roster(pleat.a, &told.freed);
        pleat.a->ops->pools->drop_roster(pleat.a, &told.live);
    }
    return st;
}

static void open_pools(void)
{
    pleat_open("capacity:1G", NULL);
    fill(1, N_SECOND);
    fill(0, N_FIRST);
    for (size_t i = 0; i < N_DEFAULT; i++) {
        (void)get(NULL);
    }
    ck_assert_uint_eq(n_unmoved(), 0);
    pl_lock_reset_touched();
}

static void close_pools(void)
{
    ck_assert_uint_le(pl_lock_most_touched(), PL_LOCK_MOST_TOUCHED);
    for (unsigned i = 0; i < 2; i++) {
        pleat.a->ops->pools->drop_roster(pleat.a, &rosters[i]);
    }
    pleat_close();
}

/* Each insertion into the map moves entries of the old table, as in requests. */
START_TEST(a_map_that_grew_for_a_restore_may_grow_for_the_next)
{
    ck_assert_int_eq(restore(0), PLEAT_OK);
    ck_assert_uint_eq(n_unmoved(), 0);
    ck_assert_int_eq(restore(1), PLEAT_OK);
    ck_assert_uint_eq(((pl_space *)pleat.a)->blocks.live.count, N_DEFAULT + N_FIRST + N_SECOND);
}
END_TEST

/* A refused restore inserts nothing. The next restore moves the old table piece by piece. */
START_TEST(a_map_that_grew_in_vain_may_grow_again)
{
    pl_meta_fail_at(3); /* the map has grown by then */
    ck_assert_int_eq(restore(0), PLEAT_ENOMEM_HOST);
    pl_meta_fail_never();
    ck_assert_uint_gt(n_unmoved(), PL_LOCK_MOST_TOUCHED);
    ck_assert_int_eq(restore(1), PLEAT_OK);
    ck_assert_int_eq(restore(0), PLEAT_OK);
    ck_assert_uint_eq(((pl_space *)pleat.a)->blocks.live.count, N_DEFAULT + N_FIRST + N_SECOND);
}
END_TEST

SUITE(segments_restore_room)
{
    TCase *tcase = suite_case(suite, "heap", open_pools, close_pools);
    tcase_add_test(tcase, a_map_that_grew_for_a_restore_may_grow_for_the_next);
    tcase_add_test(tcase, a_map_that_grew_in_vain_may_grow_again);
}
