/* place_test.c - the search for a place agrees with a try of every start. */
/* labels: unit model */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "segments/pleat/grow/place.h"
#include "segments/pleat/grow/policy.h"
#include "segments/pleat/ops/check.h"
#include "tests/support/segments/segments_rig.h"
#include "tests/support/suite.h"

enum { UNITS_PER_GRANULE = RIG_GRANULE / RIG_UNIT, NO_LIMIT = 1 << 20 };

static uint64_t seed;

static void open_rig(void)
{
    rig_open();
    seed = 20260120;
}

static pl_pace pace = { .is_unbroken = true };

static size_t random_below(size_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (size_t)(seed >> 33) % n;
}

/* Search lane 1's large area, and assert the common properties of places. */
static bool search(uint32_t lane, size_t units, size_t pin_room, pl_place *place)
{
    memset(place, 0, sizeof(*place));
    if (!pl_place_search(&rig, &pace, rig_area(1, PL_CLASS_LARGE), lane, units * RIG_UNIT, pin_room,
                         place)) {
        return false;
    }
    ck_assert_ptr_eq(place->first, pl_segment_find(place->segment, place->at));
    ck_assert_uint_le(place->n_new, place->n_pin);
    ck_assert_uint_le(place->n_pin, pin_room);
    return true;
}

/* Lane 1's place in units from the segment's base; -1 = none. */
static long found_at(size_t units, size_t pin_room)
{
    pl_place place;
    return search(1, units, pin_room, &place)
               ? (long)((place.at - place.segment->range.base) / RIG_UNIT)
               : -1;
}

static size_t new_granules(size_t units)
{
    pl_place place;
    ck_assert(search(1, units, NO_LIMIT, &place));
    return place.n_new;
}

/* ---- by hand ------------------------------------------------------------------------------- */

START_TEST(a_hole_is_filled_from_its_start)
{
    rig_draw("AAAA|....|....|....|BBBB");
    ck_assert_int_eq(found_at(4, NO_LIMIT), 4);
    ck_assert_int_eq(found_at(12, NO_LIMIT), 4);
    ck_assert_int_eq(found_at(13, NO_LIMIT), -1);
    ck_assert_uint_eq(new_granules(4), 1);
    ck_assert_uint_eq(new_granules(5), 2);
    ck_assert_uint_eq(new_granules(12), 3);
}
END_TEST

START_TEST(a_free_block_before_a_hole_is_used_up)
{
    rig_draw("AA00|....|....|BBBB");
    ck_assert_int_eq(found_at(6, NO_LIMIT), 2);
    ck_assert_uint_eq(new_granules(6), 1);
    ck_assert_uint_eq(new_granules(7), 2);
}
END_TEST

START_TEST(a_free_block_behind_a_hole_is_reached_by_the_fewest_granules)
{
    rig_draw("AAAA|....|....|....|00BB");
    ck_assert_int_eq(found_at(6, NO_LIMIT), 12); /* one new granule, and the free block */
    ck_assert_uint_eq(new_granules(6), 1);
    ck_assert_int_eq(found_at(7, NO_LIMIT), 4); /* lower of two places that need two granules */
}
END_TEST

START_TEST(two_holes_are_joined_over_the_free_block_between_them)
{
    rig_draw("AA00|....|0000|....|00BB");
    ck_assert_int_eq(found_at(10, NO_LIMIT), 2);
    ck_assert_uint_eq(new_granules(10), 1);
    ck_assert_int_eq(found_at(16, NO_LIMIT), 2);
    ck_assert_uint_eq(new_granules(16), 2);
}
END_TEST

START_TEST(of_two_gaps_the_one_that_needs_less_wins)
{
    rig_draw("....|....|....|AA00|....|BBBB");
    ck_assert_int_eq(found_at(6, NO_LIMIT), 14);
    ck_assert_int_eq(found_at(4, NO_LIMIT), 0); /* the lower of two holes that need one granule */
    ck_assert_int_eq(found_at(7, NO_LIMIT), 0);
}
END_TEST

START_TEST(of_two_segments_the_one_that_needs_less_wins)
{
    rig_draw("....|....|BBBB");
    pl_segment *high = rig_draw("AA00|....|BBBB");
    pl_place place;
    ck_assert(search(1, 6, NO_LIMIT, &place));
    ck_assert_ptr_eq(place.segment, high);
    ck_assert_uint_eq(place.n_new, 1);
    ck_assert(search(1, 8, NO_LIMIT, &place));
    ck_assert_ptr_ne(place.segment, high);
}
END_TEST

START_TEST(other_streams_and_busy_memory_end_a_gap)
{
    static const char *const drawings[] = { "AA00|....|22BB", "AA00|....|mmBB", "AA00|....|kkBB",
                                            "AA00|....|ffBB", "AA00|....|ssss", "AA00|....|hhhh",
                                            "AA00|....|pppp" };
    rig_draw(drawings[_i]);
    ck_assert_int_eq(found_at(6, NO_LIMIT), 2);
    ck_assert_int_eq(found_at(7, NO_LIMIT), -1);
}
END_TEST

START_TEST(own_pending_memory_belongs_to_the_gap)
{
    rig_draw("AA11|....|0011|22BB");
    pl_place place;
    ck_assert_int_eq(found_at(10, NO_LIMIT), 2);
    ck_assert(!search(3, 7, NO_LIMIT, &place));
    ck_assert(search(2, 6, NO_LIMIT, &place)); /* the hole and the settled block behind it */
    ck_assert(search(PL_LANE_SETTLED, 6, NO_LIMIT, &place));
}
END_TEST

START_TEST(gaps_without_holes_are_left_to_the_index)
{
    rig_draw("AA00|0000|BBBB");
    ck_assert_int_eq(found_at(2, NO_LIMIT), -1);
}
END_TEST

/* ---- room to pin --------------------------------------------------------------------------- */

START_TEST(without_room_to_pin_there_is_no_place)
{
    rig_draw("AAAA|....|....|BBBB");
    ck_assert_int_eq(found_at(4, 0), -1);
    ck_assert_int_eq(found_at(5, 1), -1);
    ck_assert_int_eq(found_at(5, 2), 4);
}
END_TEST

START_TEST(loose_granules_under_the_place_need_room_too)
{
    rig_draw("AAAA|0000|....|BBBB");
    pl_place place;
    ck_assert(search(1, 5, NO_LIMIT, &place));
    ck_assert_uint_eq(place.n_new, 1);
    ck_assert_uint_eq(place.n_pin, 2);
    ck_assert(!search(1, 5, 1, &place));
}
END_TEST

START_TEST(a_granule_that_holds_live_bytes_already_is_pinned_for_nothing)
{
    rig_draw("AA00|....|00BB");
    pl_place place;
    ck_assert(search(1, 8, 1, &place));
    ck_assert_uint_eq(place.n_pin, 1);
    ck_assert(!search(1, 8, 0, &place));
}
END_TEST

START_TEST(near_the_limit_a_start_at_a_granule_may_pin_less)
{
    /* From the gap's first unit 8 units would pin three granules, one unit later only two. */
    rig_draw("A222|2111|....|....|BBBB");
    ck_assert_int_eq(found_at(8, 3), 5);
    ck_assert_int_eq(found_at(8, 2), 8);
}
END_TEST

/* ---- against a try of every start ---------------------------------------------------------- */

typedef struct trial {
    bool found;
    size_t n_new;
    size_t n_pin;
    size_t start;
} trial;

static bool is_usable(char c, uint32_t lane)
{
    return c == '.' || c == '0' || c == (char)('0' + (int)lane);
}

/* Whether the gap around the start has a hole. */
static bool has_hole(const char *letters, uint32_t lane, size_t start)
{
    size_t i = start;
    while (i > 0 && is_usable(letters[i - 1], lane)) {
        i--;
    }
    for (; letters[i] != '\0' && is_usable(letters[i], lane); i++) {
        if (letters[i] == '.') {
            return true;
        }
    }
    return false;
}

static bool is_loose(const char *granule)
{
    for (size_t i = 0; i < UNITS_PER_GRANULE; i++) {
        if (granule[i] < '0' || granule[i] > '4') {
            return false;
        }
    }
    return true;
}

static trial try_start(const char *letters, uint32_t lane, size_t units, size_t start)
{
    trial t = { .start = start };
    for (size_t i = start; i < start + units; i++) {
        if (letters[i] == '\0' || !is_usable(letters[i], lane)) {
            return t;
        }
    }
    size_t first = start / UNITS_PER_GRANULE;
    size_t last = (start + units - 1) / UNITS_PER_GRANULE;
    for (size_t g = first; g <= last; g++) {
        const char *granule = letters + g * UNITS_PER_GRANULE;
        t.n_new += granule[0] == '.';
        t.n_pin += granule[0] == '.' || is_loose(granule);
    }
    t.found = has_hole(letters, lane, start);
    return t;
}

static trial try_all(const char *letters, uint32_t lane, size_t units, size_t pin_room)
{
    trial best = { 0 };
    for (size_t start = 0; letters[start] != '\0'; start++) {
        trial t = try_start(letters, lane, units, start);
        if (t.found && t.n_pin <= pin_room && (!best.found || t.n_new < best.n_new)) {
            best = t;
        }
    }
    return best;
}

/* Draws pieces of granules and of units, as a long run leaves them. */
static void scribble(char *letters, size_t n)
{
    size_t i = 0;
    while (i < n) {
        size_t kind = random_below(10);
        bool is_whole = kind < 3 && i % UNITS_PER_GRANULE == 0;
        char letter = is_whole ? '.' : "AB00112"[random_below(7)];
        size_t length = is_whole ? UNITS_PER_GRANULE * (1 + random_below(4)) : 1 + random_below(7);
        for (; length > 0 && i < n; length--) {
            letters[i++] = letter;
        }
    }
    letters[n] = '\0';
}

/* At equal need, some starts are preferred to higher ones: starts of gaps, and of free blocks
 * behind holes. */
static bool is_preferred(const char *letters, uint32_t lane, size_t start)
{
    return start == 0 || !is_usable(letters[start - 1], lane) ||
           (letters[start] != '.' && letters[start - 1] == '.');
}

static void assert_lowest(const char *letters, uint32_t lane, size_t units, size_t pin_room,
                          const trial *here)
{
    for (size_t start = 0; start < here->start; start++) {
        trial t = try_start(letters, lane, units, start);
        bool is_better = t.found && t.n_pin <= pin_room && t.n_new == here->n_new &&
                         is_preferred(letters, lane, start);
        ck_assert_msg(!is_better, "%s: %zu units, lane %u, room %zu: at %zu, not at %zu", letters,
                      units, lane, pin_room, here->start, start);
    }
}

static void compare(const pl_segment *seg, const char *letters)
{
    uint32_t lane = (uint32_t)random_below(4);
    size_t units = 1 + random_below(random_below(4) > 0 ? 24 : 60);
    size_t pin_room = random_below(3) > 0 ? NO_LIMIT : random_below(10);
    pl_place place;
    bool found = search(lane, units, pin_room, &place);
    trial least = try_all(letters, lane, units, pin_room);
    ck_assert_msg(found == least.found, "%s: %zu units, lane %u, room %zu: %d, by trial %d",
                  letters, units, lane, pin_room, found, least.found);
    if (!found) {
        return;
    }
    size_t start = (place.at - seg->range.base) / RIG_UNIT;
    trial here = try_start(letters, lane, units, start);
    ck_assert_msg(here.found, "%s: %zu units do not fit at %zu", letters, units, start);
    ck_assert_uint_eq(place.n_new, here.n_new);
    ck_assert_uint_eq(place.n_pin, here.n_pin);
    ck_assert_msg(place.n_new == least.n_new,
                  "%s: %zu units, lane %u, room %zu: %zu new at %zu, but %zu at %zu", letters,
                  units, lane, pin_room, place.n_new, start, least.n_new, least.start);
    assert_lowest(letters, lane, units, pin_room, &here);
}

START_TEST(the_place_needs_the_fewest_granules_of_all)
{
    enum { UNITS = 96, ROUNDS = 400, ASKS = 60 };
    static char letters[UNITS + 1];
    for (int round = 0; round < ROUNDS; round++) {
        scribble(letters, UNITS);
        rig_close();
        rig_open();
        pl_segment *seg = rig_draw(letters);
        for (int ask = 0; ask < ASKS; ask++) {
            compare(seg, letters);
        }
    }
}
END_TEST

/* ---- a rule of somebody's own -------------------------------------------------------------- */

enum { MOST_SEEN = 4096 };

typedef struct seen_place {
    pleat_devptr at; /* from the segment's base */
    uint64_t rank;
    size_t n_new;
} seen_place;

static struct {
    seen_place of[MOST_SEEN];
    size_t n;
    size_t units;
    size_t pin_room;
    uint64_t n_ranks; /* few: many places are equal */
} seen;

static uint64_t rank_by_chance(const pleat_policy_view *now, uint64_t own)
{
    ck_assert_uint_lt(seen.n, MOST_SEEN);
    ck_assert_uint_eq(now->bytes, seen.units * RIG_UNIT);
    ck_assert_uint_le(now->asked, seen.pin_room);
    ck_assert_uint_le(own, now->asked);
    uint64_t rank = random_below((size_t)seen.n_ranks);
    seen.of[seen.n++] = (seen_place){ .at = now->at, .rank = rank, .n_new = (size_t)own };
    return rank;
}

/* Of the places told to the rule the one that (rank, address) or (new granules, address) says. */
static const seen_place *least_seen(bool by_rank)
{
    const seen_place *best = NULL;
    for (size_t i = 0; i < seen.n; i++) {
        const seen_place *p = &seen.of[i];
        uint64_t mine = by_rank ? p->rank : p->n_new;
        uint64_t least = best == NULL ? 0 : by_rank ? best->rank : best->n_new;
        if (best == NULL || mine < least || (mine == least && p->at < best->at)) {
            best = p;
        }
    }
    return best;
}

static void compare_with_rule(void)
{
    static const pl_policy_calls calls = { .place = rank_by_chance };
    uint32_t lane = (uint32_t)random_below(4);
    pl_place own;
    pl_place ruled;
    seen.units = 1 + random_below(24);
    seen.pin_room = random_below(3) > 0 ? NO_LIMIT : random_below(10);
    seen.n = 0;
    seen.n_ranks = 1 + random_below(5);
    bool found = search(lane, seen.units, seen.pin_room, &own);
    rig.options.policy = &calls;
    ck_assert_int_eq(search(lane, seen.units, seen.pin_room, &ruled), found);
    rig.options.policy = NULL;
    ck_assert_int_eq(seen.n > 0, found);
    if (found) {
        pleat_devptr base = own.segment->range.base;
        ck_assert_uint_eq(ruled.at - base, least_seen(true)->at);
        ck_assert_uint_eq(ruled.rank, least_seen(true)->rank);
        ck_assert_uint_eq(own.at - base, least_seen(false)->at); /* pleat's own is among them */
    }
}

START_TEST(a_rule_ranks_all_places_with_room_and_the_least_is_taken)
{
    enum { UNITS = 96, ROUNDS = 200, ASKS = 60 };
    static char letters[UNITS + 1];
    for (int round = 0; round < ROUNDS; round++) {
        scribble(letters, UNITS);
        rig_close();
        rig_open();
        (void)rig_draw(letters);
        for (int ask = 0; ask < ASKS; ask++) {
            compare_with_rule();
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

SUITE(segments_place)
{
    TCase *hand = make_case("by hand");
    tcase_add_test(hand, a_hole_is_filled_from_its_start);
    tcase_add_test(hand, a_free_block_before_a_hole_is_used_up);
    tcase_add_test(hand, a_free_block_behind_a_hole_is_reached_by_the_fewest_granules);
    tcase_add_test(hand, two_holes_are_joined_over_the_free_block_between_them);
    tcase_add_test(hand, of_two_gaps_the_one_that_needs_less_wins);
    tcase_add_test(hand, of_two_segments_the_one_that_needs_less_wins);
    tcase_add_loop_test(hand, other_streams_and_busy_memory_end_a_gap, 0, 7);
    tcase_add_test(hand, own_pending_memory_belongs_to_the_gap);
    tcase_add_test(hand, gaps_without_holes_are_left_to_the_index);
    suite_add_tcase(suite, hand);
    TCase *tight = make_case("room to pin");
    tcase_add_test(tight, without_room_to_pin_there_is_no_place);
    tcase_add_test(tight, loose_granules_under_the_place_need_room_too);
    tcase_add_test(tight, a_granule_that_holds_live_bytes_already_is_pinned_for_nothing);
    tcase_add_test(tight, near_the_limit_a_start_at_a_granule_may_pin_less);
    suite_add_tcase(suite, tight);
    TCase *model = make_case("against every start");
    tcase_add_test(model, the_place_needs_the_fewest_granules_of_all);
    tcase_add_test(model, a_rule_ranks_all_places_with_room_and_the_least_is_taken);
    suite_add_tcase(suite, model);
}
