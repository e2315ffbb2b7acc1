/* segments_rig.c - see segments_rig.h. */
#include "tests/support/segments/segments_rig.h"

#include <check.h>
#include <string.h>

#include "segments/pleat/space/run.h"
#include "segments/pleat/streams/shared.h"

enum { MOST_CHARACTERS = 4096 };

pl_space rig;
static pleat_devptr next_base;
static pl_chunk next_chunk;

/* ---- the space ------------------------------------------------------------------------------- */

static void add_lane(uint32_t number)
{
    pl_lane *lane = pl_meta_calloc(&rig.meta, 1, sizeof(*lane));
    ck_assert_ptr_nonnull(lane);
    lane->number = number;
    lane->clock.next = 1;
    lane->recorded_tick = UINT64_MAX - 1; /* this tick covers everything freed */
    rig.streams.lanes[number - 1] = lane;
    rig.streams.n_lanes++;
    for (int kind = 0; kind < PL_N_CLASSES; kind++) {
        pl_area *area;
        ck_assert_int_eq(pl_space_area(&rig, lane, (pl_class)kind, &area), PLEAT_OK);
    }
}

void rig_open(void)
{
    memset(&rig, 0, sizeof(rig));
    pl_meta_fail_never();
    ck_assert_int_eq(pl_meta_init(&rig.meta), PLEAT_OK);
    pl_block_store_init(&rig.blocks.store, &rig.meta);
    pl_space_init_segments(&rig);
    rig.granule_bytes = RIG_GRANULE;
    rig.granule_log2 = RIG_GRANULE_LOG2;
    rig.chunks.limit_granules = SIZE_MAX;
    rig.chunks.total_granules = MOST_CHARACTERS;
    rig.chunks.full_at = SIZE_MAX;
    rig.streams.lanes = pl_meta_calloc(&rig.meta, RIG_LANES, sizeof(*rig.streams.lanes));
    ck_assert_ptr_nonnull(rig.streams.lanes);
    rig.streams.capacity = RIG_LANES;
    for (uint32_t number = 1; number <= RIG_LANES; number++) {
        add_lane(number);
    }
    rig.streams.newest_stamp = 1;
    next_base = RIG_BASE;
    next_chunk = 1;
}

void rig_close(void)
{
    pl_meta_fail_never();
    for (const pl_segment *seg = pl_space_lowest(&rig); seg != NULL; seg = pl_segment_above(seg)) {
        for (pl_block *b = seg->first; b != NULL; b = b->next) {
            pl_meta_free(&rig.meta, b->uses);
        }
    }
    for (int kind = 0; kind < PL_N_CLASSES; kind++) {
        for (unsigned i = 0; i < rig.places.n_areas[kind]; i++) {
            pl_area_destroy(&rig.meta, rig.places.areas[kind][i]);
        }
    }
    for (uint32_t i = 0; i < rig.streams.capacity; i++) {
        pl_meta_free(&rig.meta, rig.streams.lanes[i]);
    }
    pl_meta_free(&rig.meta, rig.streams.lanes);
    pl_ptrmap_fini(&rig.blocks.live, &rig.meta);
    pl_block_store_fini(&rig.blocks.store);
    ck_assert_uint_eq(pl_meta_fini(&rig.meta), 0);
}

pl_area *rig_area(uint32_t lane, pl_class class)
{
    return rig.streams.lanes[lane - 1]->areas[class];
}

/* ---- drawing --------------------------------------------------------------------------------- */

static bool is_live(char c)
{
    return c >= 'A' && c <= 'L';
}

static bool is_free(char c)
{
    return c >= '0' && c <= '4';
}

static void make_live(pl_block *b, char letter)
{
    pl_segment_become(b->segment, &rig.blocks.store, b, PL_BLOCK_LIVE);
    b->lane = 1;
    rig.streams.lanes[0]->n_live++;
    b->segment->area->n_used++;
    b->requested = (size_t)letter;
    ck_assert_int_eq(pl_ptrmap_reserve(&rig.blocks.live, &rig.meta, 1), PLEAT_OK);
    pl_ptrmap_insert(&rig.blocks.live, b->base, b);
    unsigned pool = pl_stats_pool(b->bytes);
    pl_usages_begin(&rig.blocks.usages, pool, b->bytes, b->requested);
}

/* Lane 1 owns the block, and lane 2 uses it, too. */
static void make_shared(pl_block *b)
{
    pl_segment_become(b->segment, &rig.blocks.store, b, PL_BLOCK_LIVE);
    b->lane = 1;
    b->segment->area->n_used++;
    ck_assert_int_eq(pl_uses_add(&rig, b, rig.streams.lanes[1], NULL, false), PLEAT_OK);
    pl_shared_free(&rig, b, NULL);
}

static void make_other(pl_block *b, char letter)
{
    switch (letter) {
    case '.':
        pl_segment_become(b->segment, &rig.blocks.store, b, PL_BLOCK_HOLE);
        pl_queue_push(&b->segment->area->holes, b);
        return;
    case 'm':
        make_shared(b);
        return;
    case 'k':
        pl_segment_become(b->segment, &rig.blocks.store, b, PL_BLOCK_CAPTURED);
        b->lane = 1;
        b->segment->area->n_used++;
        rig.streams.lanes[0]->n_refs++;
        return;
    case 's':
        pl_carve_make_stale(&rig, b);
        return;
    case 'p':
        pl_carve_refuse(&rig, b);
        return;
    case 'f':
    case 'h':
        pl_segment_become(b->segment, &rig.blocks.store, b, PL_BLOCK_FLIGHT);
        b->was = letter == 'f' ? PL_BLOCK_FREE : PL_BLOCK_HOLE;
        return;
    default:
        ck_abort_msg("no block is drawn '%c'", letter);
    }
}

/* While the segment is drawn, free blocks count as live blocks without users, at which runs end. */
static void make_block(pl_block *b, char letter)
{
    if (is_live(letter)) {
        make_live(b, letter);
    } else if (is_free(letter)) {
        pl_segment_become(b->segment, &rig.blocks.store, b, PL_BLOCK_LIVE);
        b->lane = (uint32_t)(letter - '0');
        b->stamp = b->lane != PL_LANE_SETTLED ? rig.streams.lanes[b->lane - 1]->clock.next : 0;
    } else {
        make_other(b, letter);
    }
}

/* Removes the bars and colons of a drawing; starts: where blocks begin. */
static size_t strip(const char *drawing, char *letters, bool *starts)
{
    size_t n = 0;
    bool is_parted = true;
    for (const char *c = drawing; *c != '\0'; c++) {
        if (*c == '|') {
            ck_assert_msg(n * RIG_UNIT % RIG_GRANULE == 0, "a bar inside a granule: %s", drawing);
        } else if (*c == ':') {
            is_parted = true;
        } else {
            ck_assert_uint_lt(n, MOST_CHARACTERS);
            starts[n] = is_parted || letters[n - 1] != *c;
            letters[n++] = *c;
            is_parted = false;
        }
    }
    ck_assert_msg(n > 0 && n * RIG_UNIT % RIG_GRANULE == 0, "half a granule: %s", drawing);
    return n;
}

static void back_granules(pl_segment *seg, const char *letters, size_t n)
{
    for (size_t i = 0; i < n; i += RIG_GRANULE / RIG_UNIT) {
        bool is_backed = strchr(".sph", letters[i]) == NULL;
        seg->chunks[i * RIG_UNIT / RIG_GRANULE] = is_backed ? next_chunk++ : 0;
        rig.chunks.n_held += is_backed;
        pl_space_pin(&rig, is_backed);
    }
}

static void free_drawn(pl_segment *seg, const char *letters)
{
    for (pl_block *b = seg->first; b != NULL; b = b->next) {
        size_t unit = (size_t)(b->base - seg->range.base) / RIG_UNIT;
        if (is_free(letters[unit])) {
            pl_run_free(&rig, b, b->lane, b->stamp);
            b = pl_segment_find(seg, rig_at(seg, unit));
        }
    }
}

pl_segment *rig_draw_in(uint32_t lane, pl_class class, const char *drawing)
{
    static char letters[MOST_CHARACTERS];
    static bool starts[MOST_CHARACTERS];
    size_t n = strip(drawing, letters, starts);
    pl_range range = { .base = next_base, .bytes = n * RIG_UNIT };
    pl_area *area = rig_area(lane, class);
    next_base += range.bytes + RIG_GRANULE;
    ck_assert_int_eq(pl_space_add_segment(&rig, area, range), PLEAT_OK);
    pl_segment *seg = area->newest;
    pl_segment_use_tables(&rig.meta, seg, range.base + range.bytes);
    ck_assert_int_eq(pl_block_store_reserve(&rig.blocks.store, n), PLEAT_OK);
    pl_block *b = seg->first;
    pl_queue_remove(&area->holes, b);
    for (size_t i = 0; i < n;) {
        size_t end = i + 1;
        while (end < n && !starts[end]) {
            end++;
        }
        pl_block *rest = end < n ? pl_segment_split(seg, &rig.blocks.store, b, rig_at(seg, end))
                                 : NULL;
        make_block(b, letters[i]);
        if (is_free(letters[i]) && b->lane != PL_LANE_SETTLED) {
            rig.streams.lanes[b->lane - 1]->clock.next++;
        }
        b = rest;
        i = end;
    }
    back_granules(seg, letters, n);
    free_drawn(seg, letters);
    return seg;
}

pl_segment *rig_draw(const char *drawing)
{
    return rig_draw_in(1, PL_CLASS_LARGE, drawing);
}

/* ---- looking --------------------------------------------------------------------------------- */

static char letter_of(const pl_block *b)
{
    switch ((pl_block_state)b->state) {
    case PL_BLOCK_LIVE:
        return (char)b->requested;
    case PL_BLOCK_SHARED:
        return 'm';
    case PL_BLOCK_FREE:
        return (char)('0' + (int)b->lane);
    case PL_BLOCK_HOLE:
        return '.';
    case PL_BLOCK_FLIGHT:
        return b->was == PL_BLOCK_FREE ? 'f' : 'h';
    case PL_BLOCK_STALE:
        return b->is_refused ? 'p' : 's';
    case PL_BLOCK_CAPTURED:
        return 'k';
    }
    return '?';
}

const char *rig_show(const pl_segment *seg)
{
    static char texts[4][2 * MOST_CHARACTERS];
    static unsigned n_texts;
    char *out = texts[n_texts++ % 4];
    char *at = out;
    size_t n = 0;
    for (const pl_block *b = seg->first; b != NULL; b = b->next) {
        char letter = letter_of(b);
        if (b->prev != NULL && letter_of(b->prev) == letter) {
            *at++ = ':';
        }
        for (size_t i = 0; i < b->bytes; i += RIG_UNIT) {
            if (n > 0 && n * RIG_UNIT % RIG_GRANULE == 0) {
                *at++ = '|';
            }
            *at++ = letter;
            n++;
        }
    }
    *at = '\0';
    return out;
}

pleat_devptr rig_at(const pl_segment *seg, size_t unit)
{
    return seg->range.base + unit * RIG_UNIT;
}

pl_block *rig_block(const pl_segment *seg, size_t unit)
{
    return pl_segment_find(seg, rig_at(seg, unit));
}
