/* place_scan_test.c - the search for a place, in steps of any size, agrees with a naive
 * search through every candidate of every gap. */
/* labels: unit model */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "segments/pleat/grow/place.h"
#include "segments/pleat/space/run.h"
#include "tests/support/segments/segments_rig.h"
#include "tests/support/suite.h"

enum { NO_LIMIT = 1 << 20, LANE = 1, GRANULE_UNITS = RIG_GRANULE / RIG_UNIT };

static uint64_t seed;
static pl_pace pace = { .is_unbroken = true };

static void open_rig(void)
{
    rig_open();
    seed = 20261122;
}

static size_t random_below(size_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (size_t)(seed >> 33) % n;
}

/* ---- the naive search ---------------------------------------------------------------------- */

typedef struct naive {
    uint32_t lane;
    size_t bytes;
    size_t pin_room;
    pl_place best;
} naive;

static bool is_usable(const pl_block *b, uint32_t lane)
{
    return b->state == PL_BLOCK_HOLE || pl_run_may_use(b, lane);
}

static void naive_offer(naive *search, pl_segment *seg, pleat_devptr at)
{
    pleat_devptr end = at + search->bytes;
    size_t n_new = 0;
    pl_block *first = pl_segment_find(seg, at);
    for (const pl_block *b = first; b != NULL && b->base < end; b = b->next) {
        if (b->state == PL_BLOCK_HOLE) {
            pleat_devptr low = b->base > at ? b->base : at;
            pleat_devptr high = pl_block_end(b) < end ? pl_block_end(b) : end;
            n_new += pl_segment_granule(seg, high - 1) - pl_segment_granule(seg, low) + 1;
        }
    }
    size_t n_pin = n_new + pl_segment_count_loose(seg, at, end);
    const pl_place *best = &search->best;
    bool is_better = best->segment == NULL || n_new < best->n_new ||
                     (n_new == best->n_new && at < best->at);
    if (is_better && n_pin <= search->pin_room) {
        search->best = (pl_place){
            .segment = seg, .first = first, .at = at, .n_new = n_new, .n_pin = n_pin
        };
    }
}

static void naive_gap(naive *search, pl_segment *seg, const pl_block *low, const pl_block *high)
{
    if (pl_block_end(high) - low->base < search->bytes) {
        return;
    }
    pleat_devptr top = pl_block_end(high) - search->bytes;
    bool is_tight = search->pin_room < (search->bytes >> seg->granule_log2) + 2;
    if (is_tight && pl_segment_ceil(seg, low->base) <= top) {
        naive_offer(search, seg, pl_segment_ceil(seg, low->base));
    }
    if (is_tight && pl_segment_floor(seg, top) >= low->base) {
        naive_offer(search, seg, pl_segment_floor(seg, top));
    }
    for (const pl_block *b = low; b != high->next && b->base <= top; b = b->next) {
        bool is_hole = b->state == PL_BLOCK_HOLE;
        if (b == low || (!is_hole && b->prev->state == PL_BLOCK_HOLE)) {
            naive_offer(search, seg, b->base);
        }
        if (is_hole && top < pl_block_end(b)) {
            naive_offer(search, seg, pl_segment_floor(seg, top));
        }
    }
}

static pl_place naive_search(uint32_t lane, size_t bytes, size_t pin_room)
{
    naive search = { .lane = lane, .bytes = bytes, .pin_room = pin_room };
    pl_segment *seg = rig_area(LANE, PL_CLASS_LARGE)->segments;
    for (; seg != NULL; seg = seg->next) {
        for (const pl_block *b = seg->first; b != NULL; b = b->next) {
            if (!is_usable(b, lane)) {
                continue;
            }
            const pl_block *low = b;
            bool has_hole = b->state == PL_BLOCK_HOLE;
            for (; b->next != NULL && is_usable(b->next, lane); b = b->next) {
                has_hole = has_hole || b->next->state == PL_BLOCK_HOLE;
            }
            if (has_hole) {
                naive_gap(&search, seg, low, b);
            }
        }
    }
    return search.best;
}

/* ---- agreement ----------------------------------------------------------------------------- */

static void assert_same(const pl_place *place, const pl_place *want, const char *text)
{
    ck_assert_msg(place->segment == want->segment, "%s: found %d, naively %d", text,
                  place->segment != NULL, want->segment != NULL);
    if (want->segment == NULL) {
        return;
    }
    ck_assert_msg(place->at == want->at, "%s: at %zu, naively at %zu", text,
                  (size_t)(place->at - place->segment->range.base) / RIG_UNIT,
                  (size_t)(want->at - want->segment->range.base) / RIG_UNIT);
    ck_assert_ptr_eq(place->first, want->first);
    ck_assert_uint_eq(place->n_new, want->n_new);
    ck_assert_uint_eq(place->n_pin, want->n_pin);
}

/* Continues the scan in holds of at most `budget`; returns the number of holds. */
static size_t go_on(pl_place_scan *scan, size_t budget)
{
    const pl_area *area = rig_area(LANE, PL_CLASS_LARGE);
    size_t n_holds = 1;
    for (scan->budget = budget; !pl_place_go_on(scan, area); scan->budget = budget) {
        ck_assert_uint_eq(scan->budget, 0);
        n_holds++;
    }
    return n_holds;
}

static void compare(const char *letters)
{
    uint32_t lane = (uint32_t)random_below(4);
    size_t bytes = RIG_UNIT * (1 + random_below(random_below(3) > 0 ? 24 : 80));
    size_t pin_room = random_below(3) > 0 ? NO_LIMIT : random_below(12);
    pl_place least = naive_search(lane, bytes, pin_room);
    pl_place place = { 0 };
    bool found = pl_place_search(&rig, &pace, rig_area(LANE, PL_CLASS_LARGE), lane, bytes, pin_room,
                                 &place);
    ck_assert(found == (place.segment != NULL));
    assert_same(&place, &least, letters);
    pl_place_scan scan;
    pl_place_begin(&scan, lane, bytes, pin_room);
    (void)go_on(&scan, 1 + random_below(9));
    assert_same(&scan.best, &least, letters);
}

/* Draw pieces of granules and units, as after a long run. `n_busy` of ten are unusable. */
static void scribble(char *letters, size_t n, size_t n_busy)
{
    static const char kinds[] = "001";
    size_t i = 0;
    while (i < n) {
        bool is_hole = random_below(10) < 4 && i % GRANULE_UNITS == 0;
        bool is_busy = random_below(10) < n_busy;
        char letter = is_hole ? '.' : is_busy ? "AB2"[random_below(3)] : kinds[random_below(3)];
        size_t length = is_hole ? GRANULE_UNITS * (1 + random_below(3)) : 1 + random_below(6);
        for (; length > 0 && i < n; length--) {
            letters[i++] = letter;
        }
    }
    letters[n] = '\0';
}

START_TEST(in_one_go_and_in_steps_the_place_is_that_of_the_naive_search)
{
    enum { UNITS = 160, ROUNDS = 500, ASKS = 30 };
    static char letters[UNITS + 1];
    for (int round = 0; round < ROUNDS; round++) {
        rig_close();
        rig_open();
        for (size_t n = 1 + random_below(2); n > 0; n--) {
            scribble(letters, UNITS, random_below(4));
            rig_draw(letters);
        }
        for (int ask = 0; ask < ASKS; ask++) {
            compare(letters);
        }
    }
}
END_TEST

/* ---- bounds -------------------------------------------------------------------------------- */

/* Draw n times a granule-sized hole and a granule `between`, 500 pairs per segment. */
static void draw_alternating(size_t n, const char *between)
{
    enum { MOST = 500 };
    static char letters[MOST * 2 * GRANULE_UNITS + 1];
    for (size_t part; n > 0; n -= part) {
        part = n < MOST ? n : MOST;
        size_t length = 0;
        for (size_t i = 0; i < part; i++) {
            length += (size_t)snprintf(letters + length, sizeof(letters) - length, "....%s",
                                       between);
        }
        rig_draw(letters);
    }
}

START_TEST(a_long_gap_is_passed_over_once_however_long_the_request)
{
    enum { N = 500 };
    draw_alternating(N, "0000");
    for (size_t granules = 1; granules < 2 * N; granules += 83) {
        pl_place_scan scan;
        pl_place_begin(&scan, LANE, granules * RIG_GRANULE, NO_LIMIT);
        scan.budget = 1 << 20;
        ck_assert(pl_place_try(&scan, rig_area(LANE, PL_CLASS_LARGE)));
        ck_assert_uint_le((1 << 20) - scan.budget, 3 * 2 * N);
        ck_assert_uint_eq(scan.best.n_new, granules / 2);
    }
}
END_TEST

START_TEST(a_try_ends_with_its_budget_and_the_next_sees_other_gaps)
{
    enum { N = 200, BUDGET = 20, BYTES = 5 * RIG_UNIT };
    draw_alternating(N, "AAAA");
    rig_draw("0...|....|0AAA"); /* drawn last, so its holes are last in the queue */
    pl_area *area = rig_area(LANE, PL_CLASS_LARGE);
    size_t n_tries = 1;
    for (;; n_tries++) {
        pl_place_scan scan;
        pl_place_begin(&scan, LANE, BYTES, NO_LIMIT);
        scan.budget = BUDGET;
        ck_assert(!pl_place_try(&scan, area));
        ck_assert_uint_eq(scan.budget, 0);
        if (scan.best.segment != NULL) {
            break;
        }
        ck_assert_uint_le(n_tries, 2 * N / BUDGET + 2);
    }
    ck_assert_uint_gt(n_tries, 5);
}
END_TEST

START_TEST(with_nothing_found_the_search_goes_on_beyond_its_budget)
{
    enum { N = 1400 };
    draw_alternating(N, "AAAA");
    pl_segment *seg = rig_draw("0000|....|....|AAAA");
    pl_place place;
    pl_area *area = rig_area(LANE, PL_CLASS_LARGE);
    for (int i = 0; i < 3; i++) {
        ck_assert(pl_place_search(&rig, &pace, area, LANE, 5 * RIG_UNIT, NO_LIMIT, &place));
        ck_assert_ptr_eq(place.segment, seg);
    }
    ck_assert(!pl_place_search(&rig, &pace, area, LANE, 13 * RIG_UNIT, NO_LIMIT, &place));
}
END_TEST

START_TEST(a_request_longer_than_the_budget_is_found_in_several_holds)
{
    enum { N = 300, BUDGET = 50 };
    draw_alternating(N, "0101");
    pl_place_scan scan;
    pl_place_begin(&scan, LANE, (size_t)N * RIG_GRANULE, NO_LIMIT);
    size_t n_holds = go_on(&scan, BUDGET);
    ck_assert_uint_gt(n_holds, 10);
    ck_assert_uint_le(n_holds, 3 * 5 * N / BUDGET + 1);
    ck_assert_uint_eq(scan.best.n_new, N / 2);
}
END_TEST

START_TEST(in_one_hold_no_more_is_touched_than_was_granted)
{
    pl_place place;
    draw_alternating(1400, "00AA");
    size_t n = pl_lock_touched();
    (void)pl_place_search(&rig, &pace, rig_area(LANE, PL_CLASS_LARGE), LANE, RIG_UNIT, NO_LIMIT,
                          &place);
    ck_assert_uint_eq(pl_lock_touched() - n, PLEAT_DEBUG_LEVEL >= 1 ? PL_PLACE_BUDGET : 0);
}
END_TEST

/* ---- changes between holds ----------------------------------------------------------------- */

static bool is_still_a_place(const pl_place *place, size_t bytes)
{
    const pl_block *b = pl_segment_find(place->segment, place->at);
    for (; b != NULL && b->base < place->at + bytes; b = b->next) {
        if (b->state != PL_BLOCK_HOLE && !pl_run_may_use(b, LANE)) {
            return false;
        }
    }
    return true;
}

/* After each hold some block is split or absorbed. The scan still ends. Its place may be gone by
 * then: pl_flight_reserve finds out. */
START_TEST(a_scan_ends_although_blocks_are_split_and_absorbed_between_its_holds)
{
    enum { UNITS = 160, ROUNDS = 300 };
    static char letters[UNITS + 1];
    for (int round = 0; round < ROUNDS; round++) {
        rig_close();
        rig_open();
        scribble(letters, UNITS, 2);
        pl_segment *seg = rig_draw(letters);
        pl_area *area = rig_area(LANE, PL_CLASS_LARGE);
        size_t bytes = RIG_UNIT * (1 + random_below(40));
        pl_place_scan scan;
        pl_place_begin(&scan, LANE, bytes, NO_LIMIT);
        size_t n_holds = 0;
        for (scan.budget = 3; !pl_place_go_on(&scan, area); scan.budget = 3) {
            ck_assert_uint_le(++n_holds, 3 * UNITS);
            pl_block *b = rig_block(seg, random_below(UNITS));
            if (b->state == PL_BLOCK_FREE && b->lane == PL_LANE_SETTLED && b->bytes > RIG_UNIT) {
                ck_assert_int_eq(pl_block_store_reserve(&rig.blocks.store, 2), PLEAT_OK);
                pl_run_cut(&rig, b, RIG_UNIT);
            }
        }
        if (scan.best.segment != NULL && is_still_a_place(&scan.best, bytes)) {
            pl_place least = naive_search(LANE, bytes, NO_LIMIT);
            ck_assert_ptr_nonnull(least.segment);
            ck_assert_uint_ge(scan.best.n_new, least.n_new);
        }
    }
}
END_TEST

static TCase *make_case(const char *name)
{
    TCase *tcase = tcase_create(name);
    tcase_add_checked_fixture(tcase, open_rig, rig_close);
    return tcase;
}

SUITE(segments_place_scan)
{
    TCase *model = make_case("agreement");
    tcase_add_test(model, in_one_go_and_in_steps_the_place_is_that_of_the_naive_search);
    suite_add_tcase(suite, model);
    TCase *bounds = make_case("bounds");
    tcase_add_test(bounds, a_long_gap_is_passed_over_once_however_long_the_request);
    tcase_add_test(bounds, a_try_ends_with_its_budget_and_the_next_sees_other_gaps);
    tcase_add_test(bounds, with_nothing_found_the_search_goes_on_beyond_its_budget);
    tcase_add_test(bounds, a_request_longer_than_the_budget_is_found_in_several_holds);
    tcase_add_test(bounds, in_one_hold_no_more_is_touched_than_was_granted);
    suite_add_tcase(suite, bounds);
    TCase *changes = make_case("changes between holds");
    tcase_add_test(changes, a_scan_ends_although_blocks_are_split_and_absorbed_between_its_holds);
    suite_add_tcase(suite, changes);
}
