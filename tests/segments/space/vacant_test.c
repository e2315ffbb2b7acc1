/* vacant_test.c - vacant and loose granules under chunks of all sizes, and a recount. */
/* labels: model */
#include <check.h>
#include <string.h>

#include "segments/pleat/space/granule.h"
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

static size_t random_between(size_t least, size_t end)
{
    return least + random_below(end - least);
}

enum { MIXED_GRANULES = 300, MIXED_UNITS = 4 * MIXED_GRANULES, MIXED_STEPS = 20000 };

/* The results of a recount, and the chunk of each granule. */
static size_t chunk_from[MIXED_GRANULES];
static size_t chunk_to[MIXED_GRANULES];
static bool is_vacant[MIXED_GRANULES];
static bool is_loose[MIXED_GRANULES];

static void recount(const pl_segment *seg)
{
    memset(is_vacant, true, sizeof is_vacant);
    for (const pl_block *b = seg->first; b != NULL; b = b->next) {
        size_t last = pl_segment_granule(seg, pl_block_end(b) - 1);
        for (size_t g = pl_segment_granule(seg, b->base); g <= last; g++) {
            is_vacant[g] = is_vacant[g] && b->state == PL_BLOCK_FREE;
        }
    }
    for (size_t g = 0; g < MIXED_GRANULES; g++) {
        is_loose[g] = true;
        for (size_t i = chunk_from[g]; i < chunk_to[g]; i++) {
            is_loose[g] = is_loose[g] && is_vacant[i];
        }
    }
}

static size_t count(const bool *is_set, size_t from, size_t to)
{
    size_t n = 0;
    for (size_t g = from; g < to; g++) {
        n += is_set[g];
    }
    return n;
}

static bool is_same(const uint64_t *words, const bool *is_set)
{
    size_t g = 0;
    while (g < MIXED_GRANULES && (words[g / 64] >> (g % 64) & 1) == is_set[g]) {
        g++;
    }
    return g == MIXED_GRANULES;
}

static void assert_tables(const pl_segment *seg)
{
    recount(seg);
    ck_assert(is_same(seg->vacant, is_vacant));
    ck_assert(is_same(seg->loose, is_loose));
    ck_assert_uint_eq(seg->n_vacant, count(is_vacant, 0, MIXED_GRANULES));
    ck_assert_uint_eq(seg->n_loose, count(is_loose, 0, MIXED_GRANULES));
    ck_assert_uint_eq(rig.chunks.n_loose, seg->n_loose);
    ck_assert_uint_eq(rig.blocks.store.tally.n_tied_granules, seg->n_vacant - seg->n_loose);
    ck_assert_uint_eq(pl_segment_count_vacant(seg, seg->range.base, rig_at(seg, MIXED_UNITS)),
                      seg->n_vacant);
    ck_assert_int_eq(pl_segment_check(seg), 0);
}

/* Loose granules outside [from, to) in the chunks at its two ends. */
static size_t count_beside(size_t from, size_t to)
{
    size_t n = is_loose[from] ? from - chunk_from[from] : 0;
    return n + (is_loose[to - 1] ? chunk_to[to - 1] - to : 0);
}

static void assert_counts(const pl_segment *seg)
{
    size_t from = random_below(MIXED_UNITS);
    size_t end = from + 1 + random_below(MIXED_UNITS - from);
    size_t low = from / 4;
    size_t high = (end + 3) / 4;
    ck_assert_uint_eq(pl_segment_count_loose(seg, rig_at(seg, from), rig_at(seg, end)),
                      count(is_loose, low, high));
    ck_assert_uint_eq(pl_segment_count_loose_beside(seg, rig_at(seg, from), rig_at(seg, end)),
                      count_beside(low, high));
    size_t n = 0;
    while (low + n < high && is_loose[low + n]) {
        n++;
    }
    ck_assert_uint_eq(pl_segment_loose_run(seg, low, high - low), n);
    size_t next = low;
    while (next < MIXED_GRANULES && (!is_loose[next] || chunk_from[next] != next)) {
        next++;
    }
    ck_assert_uint_eq(pl_segment_next_chunk(seg, low), next < MIXED_GRANULES ? next : SIZE_MAX);
}

/* Free memory from `from` to `end` is in flight afterwards. */
static pl_block *carve(pl_segment *seg, size_t from, size_t end)
{
    ck_assert_int_eq(pl_block_store_reserve(&rig.blocks.store, 4), PLEAT_OK);
    return pl_carve_take(&rig, rig_block(seg, from), rig_at(seg, from), rig_at(seg, end));
}

/* The granules [from, to), whole chunks under one free block, get chunks of different sizes. */
static void change_chunks(pl_segment *seg, size_t from, size_t to)
{
    static pl_chunk next = 1000000;
    pl_block *b = carve(seg, 4 * from, 4 * to);
    pl_segment_clear_chunks(seg, from, to);
    for (size_t g = from; g < to;) {
        unsigned order = (unsigned)random_below(random_below(3) == 0 ? PL_N_ORDERS : 3);
        order = order < pl_order_of(to - g) ? order : pl_order_of(to - g);
        pl_segment_put_chunk(seg, g, next++, order);
        for (size_t end = g + ((size_t)1 << order), at = g; at < end; at++) {
            chunk_from[at] = g;
            chunk_to[at] = end;
        }
        g = chunk_to[g];
    }
    seg->has_large = true;
    pl_carve_restore(&rig, b);
}

static pl_segment *draw_mixed(void)
{
    static char drawing[MIXED_UNITS + 1];
    memset(drawing, '0', MIXED_UNITS);
    pl_segment *seg = rig_draw(drawing);
    change_chunks(seg, 0, MIXED_GRANULES);
    return seg;
}

/* A part of a free block becomes live or goes into flight, or its whole chunks change. */
static void use_free(pl_segment *seg, const pl_block *b)
{
    size_t from = (size_t)(b->base - seg->range.base) / RIG_UNIT;
    size_t n = b->bytes / RIG_UNIT;
    size_t at = random_below(n);
    size_t n_most = random_below(8) == 0 ? n - at : 1 + random_below(12);
    n = n_most < n - at ? n_most : n - at;
    size_t low = (from + 3) / 4;
    size_t high = (from + b->bytes / RIG_UNIT) / 4;
    low = low < MIXED_GRANULES && chunk_from[low] != low ? chunk_to[low] : low;
    high = high < MIXED_GRANULES ? chunk_from[high] : high;
    if (random_below(10) == 0 && low < high) {
        change_chunks(seg, low, high);
        return;
    }
    pl_block *used = carve(seg, from + at, from + at + n);
    if (random_below(3) > 0) {
        pl_segment_become(seg, &rig.blocks.store, used, PL_BLOCK_LIVE);
    }
}

static void step_mixed(pl_segment *seg)
{
    pl_block *b = rig_block(seg, random_below(MIXED_UNITS));
    size_t n = b->bytes / RIG_UNIT;
    ck_assert_int_eq(pl_block_store_reserve(&rig.blocks.store, 4), PLEAT_OK);
    if (b->state == PL_BLOCK_FREE) {
        use_free(seg, b);
    } else if (b->state == PL_BLOCK_FLIGHT) {
        pl_carve_restore(&rig, b);
    } else {
        if (n > 1 && random_below(2) == 0) {
            (void)pl_segment_split(seg, &rig.blocks.store, b,
                                   b->base + RIG_UNIT * random_between(1, n));
        }
        pl_run_free(&rig, b, PL_LANE_SETTLED, 0);
    }
}

START_TEST(vacant_and_loose_granules_of_all_sizes_agree_with_a_recount)
{
    pl_segment *seg = draw_mixed();
    size_t n_tied = 0;
    for (int step = 0; step < MIXED_STEPS; step++) {
        step_mixed(seg);
        assert_tables(seg);
        assert_counts(seg);
        n_tied += seg->n_vacant - seg->n_loose;
    }
    ck_assert_uint_gt(n_tied, MIXED_STEPS); /* else chunks were hardly ever in use in part */
}
END_TEST

SUITE(segments_vacant)
{
    TCase *vacant = suite_case(suite, "vacant", open_rig, rig_close);
    tcase_add_test(vacant, vacant_and_loose_granules_of_all_sizes_agree_with_a_recount);
}
