/* segment_test.c - cutting, joining and finding blocks, loose granules, the walker. */
/* labels: unit fault model */
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
    seed = 20260118;
}

static size_t random_below(size_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (size_t)(seed >> 33) % n;
}

static pl_block *split(pl_segment *seg, pl_block *b, size_t unit)
{
    ck_assert_int_eq(pl_block_store_reserve(&rig.blocks.store, 1), PLEAT_OK);
    return pl_segment_split(seg, &rig.blocks.store, b, rig_at(seg, unit));
}

static void absorb(pl_segment *seg, pl_block *b)
{
    pl_segment_absorb(seg, &rig.blocks.store, b, b->next);
}

/* Finds the block that covers a unit by walking over all blocks. */
static pl_block *walk_to(const pl_segment *seg, size_t unit)
{
    pl_block *b = seg->first;
    while (pl_block_end(b) <= rig_at(seg, unit)) {
        b = b->next;
    }
    return b;
}

/* ---- drawings ------------------------------------------------------------------------------ */

START_TEST(what_is_drawn_is_shown_and_sound)
{
    static const char *const drawings[] = {
        "AAAA",
        "....",
        "0000|1111|2222|....",
        "AAA0|0111|11BB|C11:1|1000",
        "AA11|ssss|pppp|mmkk|ffff|....|hhhh",
        "A000|0000|000B|....|....|1111:|1111",
    };
    for (size_t i = 0; i < sizeof drawings / sizeof drawings[0]; i++) {
        rig_assert(rig_draw(drawings[i]), drawings[i]);
        ck_assert_int_eq(pl_check_space(&rig), 0);
    }
}
END_TEST

/* ---- split and absorb ---------------------------------------------------------------------- */

START_TEST(a_split_leaves_the_low_part_and_gives_the_high_one)
{
    pl_segment *seg = rig_draw("AABB|BBBB|BBCC");
    pl_block *b = rig_block(seg, 2);
    b->lane = 3;
    b->stamp = 77;
    pl_block *high = split(seg, b, 7);
    high->requested = 'L';
    rig_assert(seg, "AABB|BBBL|LLCC");
    ck_assert_uint_eq(b->bytes, 5 * RIG_UNIT);
    ck_assert_uint_eq(high->base, rig_at(seg, 7));
    ck_assert_uint_eq(high->bytes, 3 * RIG_UNIT);
    ck_assert_uint_eq(high->lane, 3);
    ck_assert_uint_eq(high->stamp, 77);
    ck_assert_int_eq(high->state, b->state);
    ck_assert_ptr_eq(high->segment, seg);
    ck_assert_int_eq(pl_segment_check(seg), 0);
}
END_TEST

START_TEST(absorbing_undoes_a_split_anywhere)
{
    pl_segment *seg = rig_draw("AAAA|AAAA|AAAA|BBBB");
    size_t n_spare = rig.blocks.store.n_spare;
    for (size_t unit = 1; unit < 12; unit++) {
        split(seg, seg->first, unit);
        ck_assert_int_eq(pl_segment_check(seg), 0);
        absorb(seg, seg->first);
        rig_assert(seg, "AAAA|AAAA|AAAA|BBBB");
        ck_assert_int_eq(pl_segment_check(seg), 0);
    }
    ck_assert_uint_eq(rig.blocks.store.n_spare, n_spare);
}
END_TEST

START_TEST(taking_the_low_part_back_undoes_its_cut_anywhere)
{
    pl_segment *seg = rig_draw("BB00|0000|0000|BBBB");
    pl_block *b = rig_block(seg, 2);
    for (size_t unit = 3; unit < 12; unit++) {
        ck_assert_int_eq(pl_block_store_reserve(&rig.blocks.store, 1), PLEAT_OK);
        pl_block *low = pl_segment_cut_low(seg, &rig.blocks.store, b, 0, rig_at(seg, unit));
        low->state = PL_BLOCK_FREE;
        ck_assert_int_eq(pl_segment_check(seg), 0);
        pl_segment_take_low(seg, &rig.blocks.store, b, low, 0);
        ck_assert_uint_eq(b->bytes, 10 * RIG_UNIT);
        ck_assert_int_eq(pl_segment_check(seg), 0);
    }
}
END_TEST

START_TEST(of_several_blocks_in_a_granule_the_table_knows_the_last)
{
    pl_segment *seg = rig_draw("AAAA|AAAA|AAAA");
    split(seg, seg->first, 6);
    split(seg, seg->first, 5);
    split(seg, rig_block(seg, 6), 7);
    ck_assert_uint_eq(seg->last[1]->base, rig_at(seg, 7));
    ck_assert_ptr_null(seg->last[2]);
    absorb(seg, rig_block(seg, 6));
    ck_assert_uint_eq(seg->last[1]->base, rig_at(seg, 6));
    absorb(seg, rig_block(seg, 5));
    absorb(seg, seg->first);
    ck_assert_ptr_null(seg->last[1]);
    ck_assert_uint_eq(seg->started[0], 1);
}
END_TEST

START_TEST(random_splits_and_absorptions_are_found_as_by_walking)
{
    enum { UNITS = 1200 };
    static char drawing[UNITS + 1];
    memset(drawing, 'A', UNITS);
    pl_segment *seg = rig_draw(drawing);
    for (int step = 0; step < 5000; step++) {
        size_t unit = random_below(UNITS);
        pl_block *b = pl_segment_find(seg, rig_at(seg, unit));
        ck_assert_ptr_eq(b, walk_to(seg, unit));
        ck_assert_ptr_eq(pl_segment_find(seg, rig_at(seg, unit) + 511), b);
        if (random_below(20) < 11 && b->base < rig_at(seg, unit)) {
            split(seg, b, unit);
        } else if (b->next != NULL) {
            absorb(seg, b);
        }
        if (step % 100 == 0) {
            ck_assert_int_eq(pl_segment_check(seg), 0);
        }
    }
    while (seg->first->next != NULL) {
        absorb(seg, seg->first);
    }
    ck_assert_int_eq(pl_segment_check(seg), 0);
}
END_TEST

/* ---- tables -------------------------------------------------------------------------------- */

enum { FAR = 100000 }; /* granules: far more than the first tables have */

static pl_segment *open_hole(void)
{
    pl_range range = { .base = RIG_BASE, .bytes = (size_t)FAR * RIG_GRANULE };
    ck_assert_int_eq(pl_space_add_segment(&rig, rig_area(1, PL_CLASS_LARGE), range), PLEAT_OK);
    return pl_space_lowest(&rig);
}

START_TEST(a_new_segment_is_one_hole)
{
    pl_segment *seg = open_hole();
    ck_assert_ptr_null(seg->first->next);
    ck_assert_int_eq(seg->first->state, PL_BLOCK_HOLE);
    ck_assert_uint_eq(seg->first->bytes, seg->range.bytes);
    ck_assert_uint_eq(seg->n_loose, 0);
    ck_assert_uint_lt(seg->capacity, FAR);
    ck_assert_int_eq(pl_segment_check(seg), 0);
}
END_TEST

START_TEST(a_hole_is_found_beyond_the_tables)
{
    pl_segment *seg = open_hole();
    ck_assert_ptr_eq(pl_segment_find(seg, seg->range.base), seg->first);
    ck_assert_ptr_eq(pl_segment_find(seg, seg->range.base + seg->range.bytes - 1), seg->first);
    ck_assert_uint_eq(pl_segment_next_chunk(seg, FAR - 1), SIZE_MAX);
    ck_assert_uint_eq(
        pl_segment_count_loose(seg, seg->range.base, seg->range.base + seg->range.bytes), 0);
}
END_TEST

START_TEST(tables_grow_and_keep_what_they_knew)
{
    pl_segment *seg = open_hole();
    seg->chunks[1] = 99;
    seg->parts[1] = 98;
    for (size_t g = 2; g < FAR; g *= 3) {
        pl_segment_use_tables(&rig.meta, seg, pl_segment_address(seg, g));
        ck_assert_uint_ge(seg->capacity, g + 2);
        ck_assert_uint_eq(seg->capacity % 64, 0);
        pl_block *high = split(seg, pl_segment_find(seg, pl_segment_address(seg, g)),
                               g * RIG_GRANULE / RIG_UNIT);
        ck_assert_ptr_eq(seg->last[g], high);
        ck_assert_ptr_eq(seg->last[0], seg->first);
        ck_assert_uint_eq(seg->chunks[1], 99);
        ck_assert_uint_eq(seg->parts[1], 98);
        ck_assert_uint_eq(seg->chunks[seg->capacity - 1], 0);
        ck_assert_ptr_null(seg->last[seg->capacity - 1]);
    }
}
END_TEST

/* However many granules a request uses first, it allocates and moves nothing under the lock. */
START_TEST(reaching_far_moves_no_table)
{
    pl_segment *seg = open_hole();
    const pl_chunk *chunks = seg->chunks;
    size_t bytes = rig.meta.bytes;
    pl_meta_fail_from(0);
    pl_segment_use_tables(&rig.meta, seg, seg->range.base + seg->range.bytes);
    pl_meta_fail_never();
    ck_assert_ptr_eq(seg->chunks, chunks);
    ck_assert_uint_ge(seg->capacity, FAR);
    ck_assert_uint_ge(rig.meta.bytes - bytes, FAR * (sizeof(pl_chunk) + sizeof(pl_block *)));
    ck_assert_int_eq(pl_segment_check(seg), 0);
}
END_TEST

START_TEST(a_segment_that_cannot_be_made_leaves_nothing_behind)
{
    pl_range range = { .base = RIG_BASE, .bytes = (size_t)FAR * RIG_GRANULE };
    pl_area *area = rig_area(2, PL_CLASS_SMALL);
    for (uint64_t k = 0;; k++) {
        pl_meta_fail_at(k);
        pleat_status st = pl_space_add_segment(&rig, area, range);
        pl_meta_fail_never();
        if (st == PLEAT_OK) {
            break;
        }
        ck_assert_int_eq(st, PLEAT_ENOMEM_HOST);
        ck_assert_uint_eq(rig.places.segments.count, 0);
        ck_assert_ptr_null(area->segments);
        ck_assert_ptr_null(area->holes.first);
    }
    ck_assert_ptr_eq(area->segments, pl_space_lowest(&rig));
    ck_assert_int_eq(pl_check_space(&rig), 0);
}
END_TEST

/* ---- sparse tables --------------------------------------------------------------------------- */

static pl_segment *open_far(void)
{
    pl_segment *seg = open_hole();
    pleat_devptr end = seg->range.base + seg->range.bytes;
    pl_segment_use_tables(&rig.meta, seg, end);
    return seg;
}

/* Few blocks start in 100,000 granules. So whole words, and words of words, are empty between
 * them. */
START_TEST(blocks_that_start_far_apart_are_found_as_by_walking)
{
    enum { STEPS = 3000, UNITS_PER = RIG_GRANULE / RIG_UNIT };
    pl_segment *seg = open_far();
    for (int step = 0; step < STEPS; step++) {
        size_t unit = random_below((size_t)FAR * UNITS_PER);
        pl_block *b = pl_segment_find(seg, rig_at(seg, unit));
        ck_assert_ptr_eq(b, walk_to(seg, unit));
        bool is_full = random_below(40) < (size_t)(step / 100);
        if (!is_full && b->base < rig_at(seg, unit)) {
            split(seg, b, unit);
        } else if (b->next != NULL) {
            absorb(seg, b);
        }
    }
    while (seg->first->next != NULL) {
        absorb(seg, seg->first);
    }
    ck_assert_int_eq(pl_segment_check(seg), 0);
}
END_TEST

/* The blocks of a crowded granule are walked from the nearer end. */
START_TEST(a_find_walks_over_half_a_granule_at_most)
{
    enum { PIECES = 4096, LOG2 = 21 };
    pl_segment *seg;
    pl_range range = { .base = RIG_BASE, .bytes = (size_t)4 << LOG2 };
    pl_block_store *store = &rig.blocks.store;
    ck_assert_int_eq(pl_block_store_reserve(store, PIECES + 2), PLEAT_OK);
    ck_assert_int_eq(pl_segment_create(&rig.meta, store, NULL, range, LOG2, &seg), PLEAT_OK);
    pl_block *b = seg->first;
    for (size_t i = 0; i < PIECES; i++) {
        b = pl_segment_split(seg, store, b, range.base + ((pleat_devptr)1 << LOG2) + i * RIG_UNIT);
    }
    for (size_t i = 0; i < PIECES; i += 7) {
        pleat_devptr at = range.base + ((pleat_devptr)1 << LOG2) + i * RIG_UNIT;
        size_t n = pl_lock_touched();
        ck_assert_uint_eq(pl_segment_find(seg, at + 5)->base, at);
        ck_assert_uint_le(pl_lock_touched() - n, PIECES / 2 + 1);
    }
    pl_segment_destroy(&rig.meta, seg);
}
END_TEST

static bool is_loose_at(const pl_segment *seg, size_t g)
{
    return (seg->loose[g / 64] >> (g % 64) & 1) != 0;
}

static size_t next_loose_by_walking(const pl_segment *seg, size_t from)
{
    while (from < seg->capacity && !is_loose_at(seg, from)) {
        from++;
    }
    return from < seg->capacity ? from : SIZE_MAX;
}

static size_t loose_run_by_walking(const pl_segment *seg, size_t from, size_t most)
{
    size_t n = 0;
    while (n < most && is_loose_at(seg, from + n)) {
        n++;
    }
    return n;
}

START_TEST(few_loose_granules_of_many_are_found_by_few_words)
{
    enum { STEPS = 2000 };
    pl_segment *seg = open_far();
    ck_assert_uint_eq(pl_segment_next_chunk(seg, 0), SIZE_MAX);
    for (int step = 0; step < STEPS; step++) {
        size_t from = random_below(FAR - 400);
        size_t to = from + 1 + (random_below(3) > 0 ? 0 : random_below(300));
        pleat_devptr base = pl_segment_address(seg, from);
        if (random_below(2) > 0) {
            (void)pl_segment_loosen_granules(seg, from, to);
        } else {
            (void)pl_segment_pin(seg, base, pl_segment_address(seg, to + random_below(99)));
        }
        size_t at = random_below(2) > 0 ? random_below(FAR - 400) : from;
        size_t n_touched = pl_lock_touched();
        size_t next = pl_segment_next_chunk(seg, at);
        ck_assert_uint_le(pl_lock_touched() - n_touched, 2 + FAR / 64 / 64);
        ck_assert_uint_eq(next, next_loose_by_walking(seg, at));
        size_t most = random_below(400);
        ck_assert_uint_eq(pl_segment_loose_run(seg, at, most), loose_run_by_walking(seg, at, most));
    }
    (void)pl_segment_pin(seg, seg->range.base, seg->range.base + seg->range.bytes);
    ck_assert_int_eq(pl_segment_check(seg), 0);
}
END_TEST

/* ---- loose granules ------------------------------------------------------------------------ */

/* The bitmap as digits, one digit per granule. */
static const char *loose_of(const pl_segment *seg)
{
    static char text[512];
    size_t n = seg->range.bytes / RIG_GRANULE;
    for (size_t g = 0; g < n; g++) {
        text[g] = (seg->loose[g / 64] >> (g % 64)) & 1 ? '1' : '0';
    }
    text[n] = '\0';
    return text;
}

START_TEST(a_granule_is_loose_when_only_free_blocks_have_bytes_in_it)
{
    pl_segment *seg = rig_draw("A000|0000|00BB|....|1112|2200|00:11|mm00|kk00|0000|ffff|0000");
    ck_assert_str_eq(loose_of(seg), "010011100101");
    ck_assert_uint_eq(seg->n_loose, 6);
}
END_TEST

static size_t loosen(pl_segment *seg, const pl_block *b)
{
    return pl_segment_loosen(seg, b->base, pl_block_end(b));
}

START_TEST(pinning_counts_the_loose_granules_it_touches)
{
    pl_segment *seg = rig_draw("0000|0000|0000|0000|A000|0000");
    ck_assert_uint_eq(pl_segment_count_loose(seg, rig_at(seg, 7), rig_at(seg, 9)), 2);
    ck_assert_uint_eq(pl_segment_count_loose(seg, rig_at(seg, 12), rig_at(seg, 24)), 2);
    ck_assert_uint_eq(pl_segment_pin(seg, rig_at(seg, 7), rig_at(seg, 9)), 2);
    ck_assert_str_eq(loose_of(seg), "100101");
    ck_assert_uint_eq(seg->n_loose, 3);
    ck_assert_uint_eq(pl_segment_pin(seg, rig_at(seg, 4), rig_at(seg, 12)), 0);
    ck_assert_uint_eq(pl_segment_pin(seg, rig_at(seg, 0), rig_at(seg, 24)), 3);
    ck_assert_uint_eq(seg->n_loose, 0);
    /* Every granule of the block is still under free blocks. So all of them become loose again. */
    ck_assert_uint_eq(loosen(seg, seg->first), 4);
    ck_assert_uint_eq(loosen(seg, rig_block(seg, 18)), 1);
    ck_assert_str_eq(loose_of(seg), "111101");
}
END_TEST

START_TEST(the_next_loose_chunk_is_found_across_words)
{
    enum { GRANULES = 200 };
    static char drawing[GRANULES * 4 + 1];
    memset(drawing, 'A', GRANULES * 4);
    static const size_t loose[] = { 3, 63, 64, 130, 191, 199 };
    size_t n = sizeof loose / sizeof loose[0];
    for (size_t i = 0; i < n; i++) {
        memset(drawing + loose[i] * 4, '0', 4);
    }
    pl_segment *seg = rig_draw(drawing);
    size_t i = 0;
    for (size_t g = 0; g < GRANULES; g++) {
        i += i < n && g > loose[i];
        ck_assert_uint_eq(pl_segment_next_chunk(seg, g), i < n ? loose[i] : SIZE_MAX);
    }
    ck_assert_uint_eq(pl_segment_next_chunk(seg, seg->capacity), SIZE_MAX);
    ck_assert_uint_eq(pl_segment_next_chunk(seg, SIZE_MAX), SIZE_MAX);
}
END_TEST

/* A random drawing of live and free pieces, without holes. */
static void scribble(char *drawing, size_t n, size_t most)
{
    static const char letters[] = "AB0123";
    size_t i = 0;
    while (i < n) {
        size_t length = 1 + random_below(most);
        char letter = letters[random_below(sizeof letters - 1)];
        for (; length > 0 && i < n; length--) {
            drawing[i++] = letter;
        }
    }
    drawing[n] = '\0';
}

START_TEST(loose_granules_agree_with_a_recount)
{
    enum { UNITS = 800 };
    static char drawing[UNITS + 1];
    scribble(drawing, UNITS, 9);
    pl_segment *seg = rig_draw(drawing);
    size_t n_loose = 0;
    for (size_t i = 0; i < UNITS; i += 4) {
        bool is_loose = true;
        for (size_t j = i; j < i + 4; j++) {
            is_loose = is_loose && drawing[j] < 'A';
        }
        n_loose += is_loose;
        ck_assert_uint_eq(pl_segment_count_loose(seg, rig_at(seg, i), rig_at(seg, i + 1)),
                          is_loose);
    }
    ck_assert_uint_gt(n_loose, 0);
    ck_assert_uint_eq(seg->n_loose, n_loose);
    ck_assert_int_eq(pl_segment_check(seg), 0);
}
END_TEST

START_TEST(blocks_that_come_and_go_leave_granules_as_a_recount_says)
{
    enum { UNITS = 800, STEPS = 2000 };
    static char drawing[UNITS + 1];
    scribble(drawing, UNITS, 30);
    pl_segment *seg = rig_draw(drawing);
    for (int step = 0; step < STEPS; step++) {
        pl_block *b = rig_block(seg, random_below(UNITS));
        pl_block_state used = random_below(2) == 0 ? PL_BLOCK_LIVE : PL_BLOCK_FLIGHT;
        pl_segment_become(seg, &rig.blocks.store, b,
                          b->state == PL_BLOCK_FREE ? used : PL_BLOCK_FREE);
        (void)(b->state == PL_BLOCK_FREE ? loosen(seg, b)
                                         : pl_segment_pin(seg, b->base, pl_block_end(b)));
        ck_assert_int_eq(pl_segment_check(seg), 0);
    }
}
END_TEST

/* ---- the walker ---------------------------------------------------------------------------- */

static pl_segment *specimen;

static void open_specimen(void)
{
    rig_open();
    specimen = rig_draw("AAB0|0000|0011|CCCC|....|....|ssss|DDDD");
    ck_assert_int_eq(pl_segment_check(specimen), 0);
}

static void assert_broken(int rule)
{
    ck_assert_int_eq(pl_segment_check(specimen), rule);
    ck_assert_int_eq(pl_check_space(&rig), 100 + rule);
}

START_TEST(a_gap_breaks_rule_one)
{
    pl_block *b = rig_block(specimen, 2);
    b->bytes += RIG_UNIT;
    assert_broken(1);
    b->bytes -= RIG_UNIT;
}
END_TEST

START_TEST(a_block_without_bytes_breaks_rule_one)
{
    pl_block *b = split(specimen, specimen->first, 1);
    b->base = specimen->range.base;
    b->bytes = 2 * RIG_UNIT;
    specimen->first->bytes = 0;
    assert_broken(1);
}
END_TEST

START_TEST(a_torn_list_breaks_rule_one)
{
    pl_block *b = rig_block(specimen, 8);
    pl_block *prev = b->prev;
    b->prev = prev->prev;
    assert_broken(1);
    b->prev = prev;
}
END_TEST

START_TEST(a_block_of_another_segment_breaks_rule_one)
{
    pl_block *b = rig_block(specimen, 12);
    b->segment = rig_draw("AAAA");
    assert_broken(1);
    b->segment = specimen;
}
END_TEST

START_TEST(a_list_that_ends_early_breaks_rule_one)
{
    pl_block *last = rig_block(specimen, 28);
    last->prev->next = NULL;
    assert_broken(1);
    last->prev->next = last;
}
END_TEST

START_TEST(a_hole_off_the_granules_breaks_rule_two)
{
    rig_block(specimen, 0)->state = PL_BLOCK_HOLE;
    assert_broken(2);
    rig_block(specimen, 0)->state = PL_BLOCK_LIVE;
    rig_block(specimen, 0)->state = PL_BLOCK_STALE;
    assert_broken(2);
    rig_block(specimen, 0)->state = PL_BLOCK_LIVE;
}
END_TEST

START_TEST(two_neighbouring_holes_break_rule_two)
{
    split(specimen, rig_block(specimen, 16), 20);
    assert_broken(2);
}
END_TEST

START_TEST(a_table_that_knows_another_block_breaks_rule_three)
{
    specimen->last[0] = specimen->first;
    assert_broken(3);
}
END_TEST

START_TEST(a_start_that_the_bitmap_misses_breaks_rule_three)
{
    specimen->started[0] &= ~(UINT64_C(1) << 3);
    assert_broken(3);
}
END_TEST

START_TEST(a_start_that_only_the_bitmap_knows_breaks_rule_three)
{
    specimen->started[0] |= UINT64_C(1) << 5;
    assert_broken(3);
    specimen->started[0] &= ~(UINT64_C(1) << 5);
    specimen->last[5] = rig_block(specimen, 16);
    assert_broken(3);
}
END_TEST

START_TEST(a_word_of_starts_that_is_not_told_breaks_rule_three)
{
    specimen->started_any[0] ^= 1;
    assert_broken(3);
}
END_TEST

START_TEST(a_word_of_loose_granules_that_is_not_told_breaks_rule_six)
{
    specimen->loose_any[0] ^= 1;
    assert_broken(6);
}
END_TEST

START_TEST(a_chunk_under_a_hole_breaks_rule_four)
{
    specimen->chunks[5] = 4711;
    assert_broken(4);
}
END_TEST

START_TEST(a_chunk_under_a_stale_block_breaks_rule_four)
{
    specimen->chunks[6] = 4711;
    assert_broken(4);
}
END_TEST

START_TEST(a_live_block_without_a_chunk_breaks_rule_four)
{
    specimen->chunks[3] = 0;
    assert_broken(4);
}
END_TEST

START_TEST(a_granule_that_should_be_loose_breaks_rule_five)
{
    specimen->loose[0] &= ~UINT64_C(2);
    specimen->n_loose--;
    assert_broken(5);
}
END_TEST

START_TEST(a_granule_that_should_not_be_loose_breaks_rule_five)
{
    specimen->loose[0] |= 1;
    specimen->n_loose++;
    assert_broken(5);
}
END_TEST

START_TEST(a_wrong_count_of_loose_granules_breaks_rule_six)
{
    specimen->n_loose++;
    assert_broken(6);
}
END_TEST

/* The free granules 1 and 2 become one chunk. */
static void join_free(void)
{
    pl_segment_put_chunk(specimen, 1, 4711, 1);
    ck_assert_int_eq(pl_segment_check(specimen), 0);
}

START_TEST(two_handles_in_a_chunk_break_rule_seven)
{
    join_free();
    specimen->chunks[2]++;
    assert_broken(7);
}
END_TEST

START_TEST(two_orders_in_a_chunk_break_rule_seven)
{
    join_free();
    specimen->orders[2] = 0;
    assert_broken(7);
}
END_TEST

START_TEST(a_granule_at_another_place_of_its_chunk_breaks_rule_seven)
{
    join_free();
    specimen->parts[2] = 0;
    assert_broken(7);
}
END_TEST

START_TEST(a_chunk_that_begins_nowhere_breaks_rule_seven)
{
    join_free();
    specimen->parts[1] = 1;
    assert_broken(7);
}
END_TEST

START_TEST(a_chunk_without_all_its_granules_breaks_rule_seven)
{
    specimen->orders[1] = 1;
    assert_broken(7);
}
END_TEST

START_TEST(a_hole_of_some_order_breaks_rule_seven)
{
    specimen->orders[4] = 1;
    assert_broken(7);
}
END_TEST

START_TEST(a_loose_granule_of_a_chunk_that_is_in_use_breaks_rule_five)
{
    pl_segment_put_chunk(specimen, 0, 4711, 1); /* its first granule is in use */
    assert_broken(5);
}
END_TEST

START_TEST(a_granule_that_should_be_vacant_breaks_rule_five)
{
    specimen->vacant[0] &= ~UINT64_C(2);
    assert_broken(5);
}
END_TEST

START_TEST(a_wrong_count_of_vacant_granules_breaks_rule_six)
{
    specimen->n_vacant++;
    assert_broken(6);
}
END_TEST

static TCase *make_case(const char *name, void (*open)(void))
{
    TCase *tcase = tcase_create(name);
    tcase_add_checked_fixture(tcase, open, rig_close);
    return tcase;
}

static TCase *walker_case(void)
{
    TCase *walker = make_case("walker", open_specimen);
    tcase_add_test(walker, a_gap_breaks_rule_one);
    tcase_add_test(walker, a_block_without_bytes_breaks_rule_one);
    tcase_add_test(walker, a_torn_list_breaks_rule_one);
    tcase_add_test(walker, a_block_of_another_segment_breaks_rule_one);
    tcase_add_test(walker, a_list_that_ends_early_breaks_rule_one);
    tcase_add_test(walker, a_hole_off_the_granules_breaks_rule_two);
    tcase_add_test(walker, two_neighbouring_holes_break_rule_two);
    tcase_add_test(walker, a_table_that_knows_another_block_breaks_rule_three);
    tcase_add_test(walker, a_start_that_the_bitmap_misses_breaks_rule_three);
    tcase_add_test(walker, a_start_that_only_the_bitmap_knows_breaks_rule_three);
    tcase_add_test(walker, a_word_of_starts_that_is_not_told_breaks_rule_three);
    tcase_add_test(walker, a_word_of_loose_granules_that_is_not_told_breaks_rule_six);
    tcase_add_test(walker, a_chunk_under_a_hole_breaks_rule_four);
    tcase_add_test(walker, a_chunk_under_a_stale_block_breaks_rule_four);
    tcase_add_test(walker, a_live_block_without_a_chunk_breaks_rule_four);
    tcase_add_test(walker, a_granule_that_should_be_loose_breaks_rule_five);
    tcase_add_test(walker, a_granule_that_should_not_be_loose_breaks_rule_five);
    tcase_add_test(walker, a_wrong_count_of_loose_granules_breaks_rule_six);
    tcase_add_test(walker, a_wrong_count_of_vacant_granules_breaks_rule_six);
    tcase_add_test(walker, a_granule_that_should_be_vacant_breaks_rule_five);
    tcase_add_test(walker, a_loose_granule_of_a_chunk_that_is_in_use_breaks_rule_five);
    tcase_add_test(walker, two_handles_in_a_chunk_break_rule_seven);
    tcase_add_test(walker, two_orders_in_a_chunk_break_rule_seven);
    tcase_add_test(walker, a_granule_at_another_place_of_its_chunk_breaks_rule_seven);
    tcase_add_test(walker, a_chunk_that_begins_nowhere_breaks_rule_seven);
    tcase_add_test(walker, a_chunk_without_all_its_granules_breaks_rule_seven);
    tcase_add_test(walker, a_hole_of_some_order_breaks_rule_seven);
    return walker;
}

SUITE(segments_segment)
{
    TCase *drawing = make_case("drawing", open_rig);
    tcase_add_test(drawing, what_is_drawn_is_shown_and_sound);
    suite_add_tcase(suite, drawing);
    TCase *cutting = make_case("split and absorb", open_rig);
    tcase_add_test(cutting, a_split_leaves_the_low_part_and_gives_the_high_one);
    tcase_add_test(cutting, absorbing_undoes_a_split_anywhere);
    tcase_add_test(cutting, taking_the_low_part_back_undoes_its_cut_anywhere);
    tcase_add_test(cutting, of_several_blocks_in_a_granule_the_table_knows_the_last);
    tcase_add_test(cutting, random_splits_and_absorptions_are_found_as_by_walking);
    suite_add_tcase(suite, cutting);
    TCase *tables = make_case("tables", open_rig);
    tcase_add_test(tables, a_new_segment_is_one_hole);
    tcase_add_test(tables, a_hole_is_found_beyond_the_tables);
    tcase_add_test(tables, tables_grow_and_keep_what_they_knew);
    tcase_add_test(tables, reaching_far_moves_no_table);
    tcase_add_test(tables, a_segment_that_cannot_be_made_leaves_nothing_behind);
    suite_add_tcase(suite, tables);
    TCase *sparse = make_case("sparse tables", open_rig);
    tcase_add_test(sparse, blocks_that_start_far_apart_are_found_as_by_walking);
    tcase_add_test(sparse, a_find_walks_over_half_a_granule_at_most);
    tcase_add_test(sparse, few_loose_granules_of_many_are_found_by_few_words);
    suite_add_tcase(suite, sparse);
    TCase *loose = make_case("loose", open_rig);
    tcase_add_test(loose, a_granule_is_loose_when_only_free_blocks_have_bytes_in_it);
    tcase_add_test(loose, pinning_counts_the_loose_granules_it_touches);
    tcase_add_test(loose, the_next_loose_chunk_is_found_across_words);
    tcase_add_test(loose, loose_granules_agree_with_a_recount);
    tcase_add_test(loose, blocks_that_come_and_go_leave_granules_as_a_recount_says);
    suite_add_tcase(suite, loose);
    suite_add_tcase(suite, walker_case());
}
