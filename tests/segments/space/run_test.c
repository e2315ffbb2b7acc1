/* run_test.c - free blocks that a stream may use together (runs), and the indexes of runs. */
/* labels: unit model */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "segments/pleat/ops/check.h"
#include "segments/pleat/space/run.h"
#include "tests/support/segments/segments_rig.h"
#include "tests/support/suite.h"

static uint64_t seed;

static void open_rig(void)
{
    rig_open();
    seed = 20260119;
}

static void close_rig(void)
{
    ck_assert_int_eq(pl_check_space(&rig), 0);
    rig_close();
}

static size_t random_below(size_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (size_t)(seed >> 33) % n;
}

/* Free the live block that covers the unit. */
static void free_at(pl_segment *seg, size_t unit, uint32_t lane)
{
    pl_block *b = rig_block(seg, unit);
    unsigned pool = pl_stats_pool(b->bytes);
    ck_assert_int_eq(b->state, PL_BLOCK_LIVE);
    ck_assert_ptr_eq(pl_ptrmap_remove(&rig.blocks.live, b->base), b);
    pl_usages_end(&rig.blocks.usages, pool, b->bytes, b->requested);
    rig.streams.lanes[b->lane - 1]->n_live--;
    b->segment->area->n_used--;
    pl_run_free(&rig, b, lane, lane == 0 ? 0 : rig.streams.lanes[lane - 1]->clock.next);
}

/* Where the best fit of a lane begins, in units; -1 = nowhere. */
static long best_at(const pl_segment *seg, uint32_t lane, size_t units)
{
    size_t run_bytes = 0;
    pl_block *b = pl_run_best(&rig, seg->area, lane, units * RIG_UNIT, &run_bytes);
    if (b == NULL) {
        return -1;
    }
    ck_assert_uint_ge(run_bytes, units * RIG_UNIT);
    return (long)((b->base - seg->range.base) / RIG_UNIT);
}

static size_t leads(const pl_segment *seg, size_t unit)
{
    const pl_block *b = rig_block(seg, unit);
    return b->is_indexed ? b->node.bytes / RIG_UNIT : 0;
}

/* ---- merging ------------------------------------------------------------------------------- */

START_TEST(settled_neighbours_are_merged)
{
    pl_segment *seg = rig_draw("AABB|CCDD");
    free_at(seg, 0, 0);
    free_at(seg, 4, 0);
    rig_assert(seg, "00BB|00DD");
    free_at(seg, 2, 0);
    rig_assert(seg, "0000|00DD");
    ck_assert_ptr_eq(rig_block(seg, 2), seg->first);
    ck_assert_uint_eq(leads(seg, 0), 6);
}
END_TEST

START_TEST(neighbours_of_one_tick_are_merged_and_of_two_are_not)
{
    pl_segment *seg = rig_draw("AABB|CCDD");
    free_at(seg, 0, 1);
    free_at(seg, 2, 1);
    rig_assert(seg, "1111|CCDD");
    rig.streams.lanes[0]->clock.next++;
    free_at(seg, 4, 1);
    rig_assert(seg, "1111:|11DD");
    ck_assert_uint_eq(leads(seg, 0), 6); /* the two blocks are one run */
    ck_assert_uint_eq(leads(seg, 4), 0);
}
END_TEST

START_TEST(with_one_stream_ticks_keep_nothing_apart)
{
    rig.streams.n_lanes = 1;
    pl_segment *seg = rig_draw("AABB|CCDD");
    free_at(seg, 0, 1);
    rig.streams.lanes[0]->clock.next++;
    free_at(seg, 2, 1);
    rig_assert(seg, "1111|CCDD");
    ck_assert_uint_eq(seg->first->stamp, 2); /* the later tick covers both */
    ck_assert_ptr_eq(rig.streams.lanes[0]->clock.lines[PL_LINE_PENDING].queue.first, seg->first);
    ck_assert_ptr_eq(rig.streams.lanes[0]->clock.lines[PL_LINE_PENDING].queue.last, seg->first);
    ck_assert_uint_eq(rig.streams.lanes[0]->clock.lines[PL_LINE_PENDING].bytes, 4 * RIG_UNIT);
}
END_TEST

START_TEST(settled_pending_and_foreign_neighbours_are_never_merged)
{
    pl_segment *seg = rig_draw("AABB|CCDD");
    free_at(seg, 0, 0);
    free_at(seg, 2, 1);
    free_at(seg, 4, 2);
    free_at(seg, 6, 0);
    rig_assert(seg, "0011|2200");
}
END_TEST

START_TEST(freed_granules_become_loose)
{
    pl_segment *seg = rig_draw("AAAB|BBBC|CCCC");
    size_t n_pinned = rig.chunks.n_pinned;
    free_at(seg, 3, 1);
    ck_assert_uint_eq(rig.chunks.n_loose, 0);
    free_at(seg, 0, 2); /* it need not be settled to be loose */
    ck_assert_uint_eq(rig.chunks.n_loose, 1);
    free_at(seg, 8, 0);
    ck_assert_uint_eq(rig.chunks.n_loose, 3);
    ck_assert_uint_eq(rig.chunks.n_pinned, n_pinned - 3);
}
END_TEST

/* ---- runs ---------------------------------------------------------------------------------- */

START_TEST(a_run_is_settled_and_own_memory_side_by_side)
{
    pl_segment *seg = rig_draw("A001|1100|2200|1BBB");
    /* Lane 1 has a run from the first settled block to the foreign one, and a run at the end. */
    ck_assert_uint_eq(leads(seg, 3), 7);
    ck_assert_uint_eq(leads(seg, 12), 3);
    /* Lane 2's run is its own block and the settled blocks around it. */
    ck_assert_uint_eq(leads(seg, 8), 6);
    /* Settled blocks also count by themselves. */
    ck_assert_uint_eq(leads(seg, 1), 2);
    ck_assert_uint_eq(leads(seg, 6), 2);
    ck_assert_uint_eq(leads(seg, 10), 2);
}
END_TEST

START_TEST(the_best_run_of_a_lane_begins_before_its_leader)
{
    pl_segment *seg = rig_draw("A001|1100|2200|1BBB");
    ck_assert_int_eq(best_at(seg, 1, 7), 1);
    ck_assert_int_eq(best_at(seg, 1, 4), 1);
    ck_assert_int_eq(best_at(seg, 1, 3), 10); /* settled blocks behind the foreign one */
    ck_assert_int_eq(best_at(seg, 1, 8), -1);
    ck_assert_int_eq(best_at(seg, 2, 6), 6);
    ck_assert_int_eq(best_at(seg, 2, 7), -1);
    ck_assert_int_eq(best_at(seg, 3, 2) % 4, 2); /* any two settled units */
    ck_assert_int_eq(best_at(seg, 3, 3), -1);
}
END_TEST

START_TEST(capturing_requests_see_settled_memory_only)
{
    pl_segment *seg = rig_draw("1111|000A|2222");
    ck_assert_int_eq(best_at(seg, PL_LANE_SETTLED, 3), 4);
    ck_assert_int_eq(best_at(seg, PL_LANE_SETTLED, 4), -1);
}
END_TEST

START_TEST(a_freed_block_joins_two_runs)
{
    pl_segment *seg = rig_draw("1111|AAAA|0111|BBBB");
    ck_assert_uint_eq(leads(seg, 9), 4);
    free_at(seg, 4, 0);
    rig_assert(seg, "1111|0000|0111|BBBB");
    ck_assert_uint_eq(leads(seg, 0), 12);
    ck_assert_uint_eq(leads(seg, 9), 0);
    ck_assert_int_eq(best_at(seg, 1, 12), 0);
}
END_TEST

START_TEST(a_foreign_block_parts_a_run)
{
    pl_segment *seg = rig_draw("1111|AAAA|0111|BBBB");
    free_at(seg, 4, 2);
    ck_assert_uint_eq(leads(seg, 0), 4);
    ck_assert_uint_eq(leads(seg, 4), 5); /* with the settled unit behind it */
    ck_assert_uint_eq(leads(seg, 9), 4);
}
END_TEST

/* ---- claim and cut ------------------------------------------------------------------------- */

START_TEST(a_claimed_block_leaves_its_run_in_two)
{
    pl_segment *seg = rig_draw("1100|2:2BB|1111|0011");
    pl_block *b = rig_block(seg, 2);
    pl_run_claim(&rig, b);
    pl_segment_become(b->segment, &rig.blocks.store, b, PL_BLOCK_FLIGHT);
    b->was = PL_BLOCK_FREE;
    pl_run_refresh_beside(&rig, b, b);
    rig_assert(seg, "11ff|2:2BB|1111|0011");
    ck_assert_uint_eq(leads(seg, 0), 2);
    ck_assert_uint_eq(leads(seg, 4), 2);
    rig.chunks.n_loose -= pl_segment_pin(seg, b->base, pl_block_end(b));
    rig.chunks.n_pinned++;
    pl_run_free(&rig, b, 0, 0);
    rig_assert(seg, "1100|2:2BB|1111|0011");
    ck_assert_uint_eq(leads(seg, 0), 4);
}
END_TEST

START_TEST(a_claimed_pending_block_leaves_its_queue)
{
    pl_segment *seg = rig_draw("11AA|1111|AABB");
    pl_lane *lane = rig.streams.lanes[0];
    ck_assert_uint_eq(lane->clock.lines[PL_LINE_PENDING].bytes, 6 * RIG_UNIT);
    pl_block *b = rig_block(seg, 4);
    pl_run_claim(&rig, b);
    ck_assert_uint_eq(lane->clock.lines[PL_LINE_PENDING].bytes, 2 * RIG_UNIT);
    ck_assert_ptr_eq(lane->clock.lines[PL_LINE_PENDING].queue.first, seg->first);
    ck_assert_ptr_eq(lane->clock.lines[PL_LINE_PENDING].queue.last, seg->first);
    pl_run_free(&rig, b, 1, b->stamp);
    ck_assert_uint_eq(lane->clock.lines[PL_LINE_PENDING].bytes, 6 * RIG_UNIT);
}
END_TEST

START_TEST(the_rest_of_a_cut_block_takes_its_turn)
{
    pl_segment *seg = rig_draw("1111|AAAA|1111|AAAA|1111");
    pl_lane *lane = rig.streams.lanes[0];
    ck_assert_int_eq(pl_block_store_reserve(&rig.blocks.store, 1), PLEAT_OK);
    pl_block *b = rig_block(seg, 8);
    pl_run_cut(&rig, b, 3 * RIG_UNIT);
    ck_assert_ptr_eq(lane->clock.lines[PL_LINE_PENDING].queue.first, rig_block(seg, 0));
    ck_assert_ptr_eq(lane->clock.lines[PL_LINE_PENDING].queue.first->queue_next,
                     rig_block(seg, 11));
    ck_assert_ptr_eq(lane->clock.lines[PL_LINE_PENDING].queue.last, rig_block(seg, 16));
    ck_assert_uint_eq(lane->clock.lines[PL_LINE_PENDING].bytes, 9 * RIG_UNIT);
    ck_assert_uint_eq(leads(seg, 11), 1);
    ck_assert(!b->is_indexed);
    ck_assert_uint_eq(rig_block(seg, 11)->stamp, b->stamp);
    rig.chunks.n_loose -= pl_segment_pin(seg, b->base, pl_block_end(b));
    rig.chunks.n_pinned++;
    pl_run_free(&rig, b, 0, 0);
    rig_assert(seg, "1111|AAAA|0001|AAAA|1111");
}
END_TEST

/* Settled memory that is merged with pending memory looks busy to other streams. So of a run of too
 * many pieces the small ones are merged. */
START_TEST(a_run_of_many_pieces_is_shortened_where_it_costs_least)
{
    pl_segment *seg = rig_draw("0000|0000|0000|0000|1010|1010|1010|1010|1010|1010|1010|1010|1010");
    const pl_block *large = rig_block(seg, 0);
    ck_assert_uint_eq(large->lane, PL_LANE_SETTLED);
    ck_assert_uint_eq(large->bytes, 16 * RIG_UNIT);
    ck_assert_uint_eq(rig_block(seg, 16)->bytes, 2 * RIG_UNIT);
}
END_TEST

/* ---- order of the queue -------------------------------------------------------------------- */

static void assert_rising(const pl_lane *lane)
{
    for (const pl_block *b = lane->clock.lines[PL_LINE_PENDING].queue.first; b != NULL;
         b = b->queue_next) {
        ck_assert(b->queue_next == NULL || b->stamp <= b->queue_next->stamp);
    }
}

START_TEST(ticks_never_fall_along_the_queue)
{
    pl_segment *seg = rig_draw("1111|AAAA|1111|AAAA|1111");
    pl_block *b = rig_block(seg, 0); /* the oldest block goes and comes back */
    pl_run_claim(&rig, b);
    pl_run_free(&rig, b, 1, b->stamp);
    assert_rising(rig.streams.lanes[0]);
}
END_TEST

/* ---- move ---------------------------------------------------------------------------------- */

START_TEST(settling_merges_with_what_is_settled)
{
    pl_segment *seg = rig_draw("0011|0022|1122|AAAA");
    pl_run_move(&rig, rig_block(seg, 2), PL_LANE_SETTLED, 0);
    rig_assert(seg, "0000|0022|1122|AAAA");
    ck_assert_uint_eq(leads(seg, 0), 6);
    ck_assert_uint_eq(leads(seg, 6), 8); /* the run of lane 2 */
    ck_assert_uint_eq(rig.streams.lanes[0]->clock.lines[PL_LINE_PENDING].bytes, 2 * RIG_UNIT);
    pl_run_move(&rig, rig_block(seg, 6), PL_LANE_SETTLED, 0);
    rig_assert(seg, "0000|0000|1122|AAAA");
    ck_assert_uint_eq(leads(seg, 8), 10);
    ck_assert_uint_eq(leads(seg, 10), 2);
}
END_TEST

START_TEST(an_ordered_block_pends_on_the_other_lane)
{
    pl_segment *seg = rig_draw("2211|1122|AAAA|AAAA");
    pl_run_move(&rig, rig_block(seg, 2), 2, rig.streams.lanes[1]->clock.next);
    rig_assert(seg, "22:22|22:22|AAAA|AAAA");
    ck_assert_uint_eq(leads(seg, 0), 8);
    ck_assert_uint_eq(rig.streams.lanes[0]->clock.lines[PL_LINE_PENDING].bytes, 0);
    ck_assert_ptr_null(rig.streams.lanes[0]->clock.lines[PL_LINE_PENDING].queue.first);
    ck_assert_uint_eq(rig.streams.lanes[1]->clock.lines[PL_LINE_PENDING].bytes, 8 * RIG_UNIT);
    assert_rising(rig.streams.lanes[1]);
}
END_TEST

/* ---- against a recount --------------------------------------------------------------------- */

/* The least run of at least `units` for a lane, in a drawing of one area; 0 = none. A settled block
 * also counts by itself. */
static size_t least_run(const char *letters, uint32_t lane, size_t units)
{
    size_t least = 0;
    char own = (char)('0' + (int)lane);
    for (size_t i = 0; letters[i] != '\0';) {
        size_t n = 0;
        while (letters[i + n] == '0' || letters[i + n] == own) {
            n++;
        }
        for (size_t j = 0; j < n;) { /* settled blocks inside the run also count by themselves */
            size_t n_settled = 0;
            while (j + n_settled < n && letters[i + j + n_settled] == '0') {
                n_settled++;
            }
            if (n_settled >= units && (least == 0 || n_settled < least)) {
                least = n_settled;
            }
            j += n_settled + 1;
        }
        bool has_own = n > 0 && memchr(letters + i, own, n) != NULL;
        if (has_own && n >= units && (least == 0 || n < least)) {
            least = n;
        }
        i += letters[i + n] == '\0' ? n : n + 1;
    }
    return least;
}

static void strip(const char *drawing, char *letters)
{
    for (; *drawing != '\0'; drawing++) {
        if (*drawing != '|' && *drawing != ':') {
            *letters++ = *drawing;
        }
    }
    *letters = '\0';
}

static void random_change(pl_segment *seg, size_t unit)
{
    pl_block *b = rig_block(seg, unit);
    uint32_t lane = (uint32_t)random_below(4);
    uint64_t stamp = 0;
    if (lane != PL_LANE_SETTLED) {
        rig.streams.lanes[lane - 1]->clock.next += random_below(2);
        stamp = rig.streams.lanes[lane - 1]->clock.next;
    }
    if (b->state == PL_BLOCK_LIVE) {
        free_at(seg, unit, lane);
    } else if (b->lane != lane) {
        pl_run_move(&rig, b, lane, stamp);
    }
}

START_TEST(random_frees_and_moves_agree_with_a_recount)
{
    enum { UNITS = 240 };
    static char drawing[UNITS + 1];
    static char letters[UNITS + 1];
    for (size_t i = 0; i < UNITS; i++) {
        drawing[i] = i > 0 && random_below(3) > 0 ? drawing[i - 1] : (char)('A' + random_below(9));
    }
    pl_segment *seg = rig_draw(drawing);
    for (int step = 0; step < 600; step++) {
        random_change(seg, random_below(UNITS));
        ck_assert_int_eq(pl_check_space(&rig), 0);
        strip(rig_show(seg), letters);
        for (uint32_t lane = 1; lane <= 3; lane++) {
            size_t units = 1 + random_below(20);
            size_t run_bytes = 0;
            pl_block *b = pl_run_best(&rig, seg->area, lane, units * RIG_UNIT, &run_bytes);
            ck_assert_uint_eq(run_bytes / RIG_UNIT, least_run(letters, lane, units));
            ck_assert(b == NULL || pl_run_may_use(b, lane));
            assert_rising(rig.streams.lanes[lane - 1]);
        }
    }
}
END_TEST

/* ---- the walker ---------------------------------------------------------------------------- */

static pl_segment *specimen;

static void open_specimen(void)
{
    rig_open();
    specimen = rig_draw("AA00|1100|BBBB|1:111");
    ck_assert_int_eq(pl_run_check(specimen), 0);
}

static void assert_broken(void)
{
    ck_assert_int_eq(pl_run_check(specimen), 1);
    ck_assert_int_eq(pl_check_space(&rig), 201);
}

START_TEST(a_settled_block_outside_the_index_is_found)
{
    pl_run_drop(&rig, rig_block(specimen, 2));
    assert_broken();
    pl_run_refresh(&rig, rig_block(specimen, 2));
}
END_TEST

START_TEST(a_run_without_a_leader_is_found)
{
    pl_run_drop(&rig, rig_block(specimen, 4));
    assert_broken();
    pl_run_refresh(&rig, rig_block(specimen, 4));
}
END_TEST

START_TEST(a_second_leader_is_found)
{
    pl_block *b = rig_block(specimen, 13);
    pl_index_insert(&rig.streams.lanes[0]->runs[PL_CLASS_LARGE], &b->node, b->bytes);
    b->is_indexed = true;
    assert_broken();
    pl_run_drop(&rig, b);
}
END_TEST

START_TEST(a_leader_with_a_wrong_size_is_found)
{
    pl_block *b = rig_block(specimen, 4);
    pl_run_drop(&rig, b);
    pl_index_insert(&rig.streams.lanes[0]->runs[PL_CLASS_LARGE], &b->node, b->bytes);
    b->is_indexed = true;
    assert_broken();
    pl_run_refresh(&rig, b);
}
END_TEST

START_TEST(an_indexed_live_block_is_found)
{
    rig_block(specimen, 8)->is_indexed = true;
    assert_broken();
    rig_block(specimen, 8)->is_indexed = false;
}
END_TEST

static TCase *make_case(const char *name, void (*open)(void))
{
    TCase *tcase = tcase_create(name);
    tcase_add_checked_fixture(tcase, open, close_rig);
    return tcase;
}

static TCase *run_case(void)
{
    TCase *runs = make_case("runs", open_rig);
    tcase_add_test(runs, a_run_is_settled_and_own_memory_side_by_side);
    tcase_add_test(runs, the_best_run_of_a_lane_begins_before_its_leader);
    tcase_add_test(runs, capturing_requests_see_settled_memory_only);
    tcase_add_test(runs, a_freed_block_joins_two_runs);
    tcase_add_test(runs, a_foreign_block_parts_a_run);
    tcase_add_test(runs, a_claimed_block_leaves_its_run_in_two);
    tcase_add_test(runs, a_claimed_pending_block_leaves_its_queue);
    tcase_add_test(runs, the_rest_of_a_cut_block_takes_its_turn);
    tcase_add_test(runs, a_run_of_many_pieces_is_shortened_where_it_costs_least);
    tcase_add_test(runs, ticks_never_fall_along_the_queue);
    return runs;
}

SUITE(segments_run)
{
    TCase *merging = make_case("merging", open_rig);
    tcase_add_test(merging, settled_neighbours_are_merged);
    tcase_add_test(merging, neighbours_of_one_tick_are_merged_and_of_two_are_not);
    tcase_add_test(merging, with_one_stream_ticks_keep_nothing_apart);
    tcase_add_test(merging, settled_pending_and_foreign_neighbours_are_never_merged);
    tcase_add_test(merging, freed_granules_become_loose);
    suite_add_tcase(suite, merging);
    suite_add_tcase(suite, run_case());
    TCase *moves = make_case("move", open_rig);
    tcase_add_test(moves, settling_merges_with_what_is_settled);
    tcase_add_test(moves, an_ordered_block_pends_on_the_other_lane);
    suite_add_tcase(suite, moves);
    TCase *model = make_case("against a recount", open_rig);
    tcase_add_test(model, random_frees_and_moves_agree_with_a_recount);
    suite_add_tcase(suite, model);
    TCase *walker = make_case("walker", open_specimen);
    tcase_add_test(walker, a_settled_block_outside_the_index_is_found);
    tcase_add_test(walker, a_run_without_a_leader_is_found);
    tcase_add_test(walker, a_second_leader_is_found);
    tcase_add_test(walker, a_leader_with_a_wrong_size_is_found);
    tcase_add_test(walker, an_indexed_live_block_is_found);
    suite_add_tcase(suite, walker);
}
