/* carve_test.c - memory cut out of free memory and put back. Each granule is counted once, also in
 * segments with granules that become loose later, and in rooms that fall asleep in between. */
/* labels: unit */
#include <check.h>

#include "segments/pleat/grow/place.h"
#include "segments/pleat/grow/request.h"
#include "segments/pleat/space/keeper.h"
#include "segments/pleat/space/run.h"
#include "tests/support/segments/segments_rig.h"
#include "tests/support/suite.h"

static pl_segment *seg;
static pl_keeper room;

/* Four granules of free memory, none of them loose yet. */
static void open_opening(void)
{
    rig_open();
    seg = rig_draw("0000|0000|0000|0000");
    rig.chunks.n_loose -= pl_segment_pin_granules(seg, 0, 3);
    rig.chunks.n_pinned = 4;
    seg->is_opening = true;
    ck_assert_int_eq(pl_block_store_reserve(&rig.blocks.store, 4), PLEAT_OK);
}

/* Four loose granules. */
static void open_loose(void)
{
    rig_open();
    seg = rig_draw("0000|0000|0000|0000");
    rig.chunks.n_pinned = 0;
    ck_assert_int_eq(pl_block_store_reserve(&rig.blocks.store, 4), PLEAT_OK);
}

static void close_rig(void)
{
    seg->area->keeper = NULL;
    seg->is_private = false;
    rig_close();
}

static void assert_counts(size_t n_loose, size_t n_pinned)
{
    ck_assert_uint_eq(rig.chunks.n_loose, n_loose);
    ck_assert_uint_eq(seg->n_loose, n_loose);
    ck_assert_uint_eq(rig.chunks.n_pinned, n_pinned);
}

static pl_block *carve(pl_block *(*how)(pl_space *, pl_block *, pleat_devptr, pleat_devptr))
{
    return how(&rig, rig_block(seg, 4), rig_at(seg, 4), rig_at(seg, 8));
}

START_TEST(the_rest_of_a_block_becomes_loose_once)
{
    pl_block *b = carve(pl_carve_out);
    rig_assert(seg, "0000|ffff|0000|0000");
    assert_counts(3, 1);
    pl_carve_put_back(&rig, b);
    assert_counts(4, 0);
}
END_TEST

START_TEST(a_request_at_its_address_pins_what_it_covers)
{
    const pl_request rq = {
        .in = seg, .at = rig_at(seg, 4), .bytes = RIG_GRANULE, .usable = PL_LANE_SETTLED
    };
    ck_assert_ptr_nonnull(pl_fixed_fit(&rig, &rq));
    assert_counts(3, 1);
    ck_assert_uint_ge(rig.chunks.peak_pinned, rig.chunks.n_pinned);
}
END_TEST

START_TEST(what_is_taken_is_in_no_counter)
{
    pl_block *b = carve(pl_carve_take);
    assert_counts(3, 0);
    pl_carve_restore(&rig, b);
    assert_counts(4, 0);
}
END_TEST

/* A sleep pins all loose granules, and later also the carved granules that come back. */
START_TEST(a_room_that_fell_asleep_pins_what_comes_back)
{
    pl_block *b = carve(pl_carve_take);
    room.rest = PL_TURNING;
    seg->area->keeper = &room;
    seg->is_private = true;
    pl_segment_own_all(seg);
    size_t n = pl_segment_pin_granules(seg, 0, 3);
    rig.chunks.n_loose -= n;
    rig.chunks.n_pinned += n;
    pl_carve_restore(&rig, b);
    assert_counts(0, 4);
}
END_TEST

/* Unused memory of a pool is still for every request. */
START_TEST(a_pool_leaves_loose_what_it_has_not_used)
{
    room.rest = PL_AWAKE;
    seg->area->keeper = &room;
    seg->is_private = true;
    pl_block *b = carve(pl_carve_take);
    pl_carve_restore(&rig, b);
    assert_counts(4, 0);
}
END_TEST

SUITE(segments_carve)
{
    TCase *opening = suite_case(suite, "a segment that opens", open_opening, close_rig);
    tcase_add_test(opening, the_rest_of_a_block_becomes_loose_once);
    tcase_add_test(opening, a_request_at_its_address_pins_what_it_covers);
    TCase *loose = suite_case(suite, "chunks that go", open_loose, close_rig);
    tcase_add_test(loose, what_is_taken_is_in_no_counter);
    tcase_add_test(loose, a_room_that_fell_asleep_pins_what_comes_back);
    tcase_add_test(loose, a_pool_leaves_loose_what_it_has_not_used);
}
