/* check.c - the walkers of a space: see check.h, and the invariants in space_state.h, segment.h and
 * run.h. */
#include "segments/pleat/ops/check.h"

#include <string.h>

#include "segments/pleat/buffers/buffer.h"
#include "segments/pleat/space/keeper.h"
#include "segments/pleat/space/run.h"
#include "segments/pleat/streams/capture.h"

enum {
    SEGMENT = 100,
    RUNS = 200,
    INDEX = 300,
    SPACE = 400,
    LIVE_MAP = 500,
    PRIVATE = 600,
    BUFFER = 700
};

typedef struct census {
    size_t n_live;
    size_t live_bytes;
    size_t requested_bytes;
    size_t pending_bytes;
    size_t private_pending_bytes;
    size_t shared_bytes;
    size_t private_shared_bytes;
    size_t n_refused;      /* stale blocks that the driver refused to unmap */
    size_t n_refused_told; /* by segments */
    size_t n_loose;
    size_t n_resident;
    size_t n_asleep;
    pl_tally tally;
} census;

/* The last granule counted of a segment. Blocks in the same granule count the granule once. */
typedef struct counted {
    size_t end; /* the next granule; 0 = none was counted */
    pl_block_state as;
} counted;

/* Add n to the granules in `state`. n is 1 or, for one less, SIZE_MAX. */
static void count_granule(const pl_segment *seg, size_t g, pl_block_state state, size_t n,
                          pl_tally *tally)
{
    bool is_asleep = seg->chunks[g] == PL_CHUNK_ASLEEP;

    if (state == PL_BLOCK_LIVE) {
        tally->n_live_granules += n;
        tally->n_live_asleep += is_asleep ? n : 0;
    } else if (state == PL_BLOCK_SHARED) {
        tally->n_shared_granules += n;
        tally->n_shared_asleep += is_asleep ? n : 0;
    }
}

/* Does a granule with blocks in both states count as state a? Live goes before captured, and
 * captured before shared. */
static bool is_over(pl_block_state a, pl_block_state b)
{
    return a == PL_BLOCK_LIVE ? b != PL_BLOCK_LIVE : a == PL_BLOCK_CAPTURED && b == PL_BLOCK_SHARED;
}

static void count_granules(const pl_segment *seg, const pl_block *b, counted *last, census *c)
{
    pl_block_state state = (pl_block_state)b->state;
    bool is_shared = state == PL_BLOCK_SHARED && !b->is_private;
    size_t first = pl_segment_granule(seg, b->base);
    size_t end = pl_segment_granule(seg, pl_block_end(b) - 1) + 1;
    if (!is_shared && state != PL_BLOCK_LIVE && state != PL_BLOCK_CAPTURED) {
        return;
    }
    if (first < last->end) { /* b begins in the last granule of the block before */
        if (is_over(state, last->as)) {
            count_granule(seg, first, last->as, SIZE_MAX, &c->tally);
            count_granule(seg, first, state, 1, &c->tally);
            last->as = state;
        }
        first++;
    }
    if (first < end) {
        *last = (counted){ .end = end, .as = state };
    }
    for (; first < end; first++) {
        count_granule(seg, first, state, 1, &c->tally);
    }
}

static void count_block(const pl_block *b, census *c)
{
    if (b->state == PL_BLOCK_LIVE) {
        c->n_live++;
        c->live_bytes += b->bytes;
        c->requested_bytes += b->requested;
        return;
    }
    c->tally.n_blocks[b->state]++;
    c->tally.bytes[b->state] += b->bytes;
    if (b->state == PL_BLOCK_FREE && b->lane != PL_LANE_SETTLED) {
        *(b->is_private ? &c->private_pending_bytes : &c->pending_bytes) += b->bytes;
    }
    if (b->state == PL_BLOCK_SHARED) {
        *(b->is_private ? &c->private_shared_bytes : &c->shared_bytes) += b->bytes;
    }
    c->n_refused += b->state == PL_BLOCK_STALE && b->is_refused;
}

static void take_census(const pl_space *space, census *c)
{
    *c = (census){ 0 };
    for (const pl_segment *seg = pl_space_lowest(space); seg != NULL; seg = pl_segment_above(seg)) {
        counted last = { 0 };
        for (const pl_block *b = seg->first; b != NULL; b = b->next) {
            count_block(b, c);
            count_granules(seg, b, &last, c);
        }
        c->n_loose += seg->n_loose;
        c->n_asleep += seg->n_asleep;
        c->n_refused_told += seg->n_refused;
        c->tally.n_tied_granules += seg->n_vacant - seg->n_loose;
        for (size_t g = 0; g < seg->capacity && space->flights.n == 0; g++) {
            c->n_resident += seg->chunks[g] != 0;
        }
    }
}

static int check_segments(const pl_space *space)
{
    if (pl_tree_check(&space->places.segments) != 0) {
        return SPACE + 3;
    }
    for (const pl_segment *seg = pl_space_lowest(space); seg != NULL; seg = pl_segment_above(seg)) {
        int broken = pl_segment_check(seg);
        if (broken != 0) {
            return SEGMENT + broken;
        }
        const pl_buffer *buffer = seg->area->buffer;
        broken = buffer != NULL ? pl_buffer_check(space, buffer) : 0;
        if (broken != 0) {
            return BUFFER + broken;
        }
        if (pl_run_check(seg) != 0) {
            return RUNS + 1;
        }
    }
    return 0;
}

static int check_area(const pl_area *area)
{
    for (uint32_t lane = 0; lane < area->n_runs; lane++) {
        int broken = area->runs[lane] != NULL ? pl_index_check(area->runs[lane]) : 0;
        if (broken != 0) {
            return INDEX + broken;
        }
    }
    for (const pl_block *b = area->holes.first; b != NULL; b = b->queue_next) {
        if (b->state != PL_BLOCK_HOLE || b->segment->area != area) {
            return SPACE + 5;
        }
    }
    return 0;
}

static int check_areas(const pl_space *space, const pl_keeper *keeper)
{
    pl_area_cursor cursor = { 0 };
    int broken = 0;

    for (const pl_area *area; broken == 0;) {
        area = pl_space_next_area(space, keeper, &cursor);
        if (area == NULL) {
            break;
        }
        broken = area->keeper == keeper ? check_area(area) : PRIVATE + 1;
    }
    return broken;
}

static int check_indexes(const pl_space *space)
{
    int broken = check_areas(space, NULL);

    const pl_keeper *keeper = LIST_FIRST(&space->places.keepers);
    for (; keeper != NULL && broken == 0; keeper = LIST_NEXT(keeper, link)) {
        broken = check_areas(space, keeper);
    }
    if (broken == 0 && pl_keeper_check(space) != 0) {
        broken = PRIVATE + 1;
    }
    return broken;
}

/* A line of the clock of a lane, of the context (lane 0) or of a capture. */
typedef struct line_of {
    uint32_t lane;
    const pl_capture *capture; /* or NULL */
    pl_line_kind kind;
} line_of;

/* Is b, which waits in the line, where it belongs? */
static bool belongs(const line_of *of, const pl_block *b)
{
    if (b->state == PL_BLOCK_FREE) {
        return of->capture == NULL && of->lane != PL_LANE_CONTEXT && b->lane == of->lane &&
               of->kind == (b->is_private ? PL_LINE_PRIVATE : PL_LINE_PENDING);
    }
    bool is_waiting = b->state == PL_BLOCK_SHARED ||
                      (b->state == PL_BLOCK_CAPTURED && of->capture != NULL);
    if (!is_waiting || b->uses == NULL || b->uses->n == 0) {
        return false;
    }
    const pl_block_use *use = &b->uses->use[b->uses->n - 1];
    if (of->capture != NULL) {
        return use->capture == of->capture && b->stamp == pl_capture_stamp(b->is_private) &&
               of->kind == (b->is_private ? PL_LINE_PRIVATE : PL_LINE_SHARED);
    }
    return use->capture == NULL && use->lane == of->lane && use->stamp <= b->stamp &&
           of->kind == PL_LINE_SHARED;
}

static bool is_line_sound(const pl_line *line, const line_of *of)
{
    const pl_block *before = NULL;
    size_t bytes = 0;

    for (const pl_block *b = line->queue.first; b != NULL; b = b->queue_next) {
        if (!belongs(of, b) || b->queue_prev != before ||
            (before != NULL && b->stamp < before->stamp)) {
            return false;
        }
        before = b;
        bytes += b->bytes;
    }
    return line->queue.last == before && line->bytes == bytes;
}

static bool is_clock_sound(const pl_clock *clock, uint32_t lane, const pl_capture *capture)
{
    bool is_sound = true;

    for (int kind = 0; kind < PL_N_LINES; kind++) {
        line_of of = { lane, capture, (pl_line_kind)kind };
        is_sound = is_sound && is_line_sound(&clock->lines[kind], &of);
    }
    return is_sound;
}

static bool is_lane_sound(const pl_lane *lane)
{
    for (int class = 0; class < PL_N_CLASSES; class ++) {
        if (pl_index_check(&lane->runs[class]) != 0) {
            return false;
        }
    }
    return pl_clock_has_waiting(&lane->clock) == lane->busy.is_linked &&
           (lane->n_ticks > 0) == lane->ticking.is_linked &&
           (lane->capture == NULL || !pl_lane_is_gone(lane)) &&
           is_clock_sound(&lane->clock, lane->number, NULL);
}

static int check_captures(const pl_space *space)
{
    const pl_capture *capture = LIST_FIRST(&space->captures.all);

    while (capture != NULL && is_clock_sound(&capture->clock, PL_LANE_CONTEXT, capture)) {
        capture = LIST_NEXT(capture, all);
    }
    return capture == NULL ? 0 : SPACE + 5;
}

static int check_lanes(const pl_space *space)
{
    size_t n_busy = 0;
    size_t n_ticking = 0;

    if (!is_clock_sound(&space->streams.context.clock, PL_LANE_CONTEXT, NULL)) {
        return SPACE + 5;
    }
    for (uint32_t i = 0; i < space->streams.capacity; i++) {
        const pl_lane *lane = space->streams.lanes[i];
        if (lane == NULL) {
            continue;
        }
        if (!is_lane_sound(lane)) {
            return SPACE + 5;
        }
        n_busy += lane->busy.is_linked;
        n_ticking += lane->ticking.is_linked;
    }
    /* No ring has a lane that was given up. */
    return n_busy == space->streams.busy.n && n_ticking == space->streams.ticking.n ? 0 : SPACE + 5;
}

static void see_references(const pl_space *space, const pl_block *b)
{
    bool is_waiting = b->state == PL_BLOCK_SHARED || b->state == PL_BLOCK_CAPTURED;

    if (b->state == PL_BLOCK_LIVE) {
        pl_space_lane_at(space, b->lane)->n_seen_live++;
    }
    if (is_waiting || (b->state == PL_BLOCK_STALE && b->lane != PL_LANE_SETTLED)) {
        pl_space_lane_at(space, b->lane)->n_seen_refs++;
    }
    for (uint32_t i = 0; (is_waiting || b->state == PL_BLOCK_LIVE) && b->uses != NULL; i++) {
        if (i == b->uses->n) {
            return;
        }
        if (b->uses->use[i].lane != PL_LANE_CONTEXT) {
            pl_space_lane_at(space, b->uses->use[i].lane)->n_seen_refs++;
        }
    }
}

/* In a sorted list of a live block, uses without a capture come first: shared.h. */
static bool are_uses_sound(const pl_block *b)
{
    const pl_block_uses *uses = b->uses;
    bool is_sound = true;

    if (b->state != PL_BLOCK_LIVE || uses == NULL || !uses->is_sorted) {
        return true;
    }
    for (uint32_t i = 0; is_sound && i < uses->n; i++) {
        is_sound = (uses->use[i].capture == NULL) == (i < uses->n_plain);
    }
    return is_sound;
}

/* Recount the references to each lane, since a lane without references is given up. n_refs may be
 * more, as areas and calls under way count, too. */
static int check_references(const pl_space *space)
{
    for (uint32_t i = 0; i < space->streams.capacity; i++) {
        if (space->streams.lanes[i] != NULL) {
            space->streams.lanes[i]->n_seen_live = 0;
            space->streams.lanes[i]->n_seen_refs = 0;
        }
    }
    for (uint32_t i = 0; i < space->streams.capacity; i++) {
        if (space->streams.lanes[i] != NULL && space->streams.lanes[i]->is_capture) {
            pl_space_lane_at(space, pl_lane_plain(i + 1))->n_seen_refs++;
        }
    }
    for (const pl_segment *seg = pl_space_lowest(space); seg != NULL; seg = pl_segment_above(seg)) {
        for (const pl_block *b = seg->first; b != NULL; b = b->next) {
            if (!are_uses_sound(b)) {
                return SPACE + 8;
            }
            see_references(space, b);
        }
    }
    for (uint32_t i = 0; i < space->streams.capacity; i++) {
        const pl_lane *lane = space->streams.lanes[i];
        if (lane != NULL &&
            (lane->n_live != lane->n_seen_live || lane->n_refs < lane->n_seen_refs)) {
            return SPACE + 8;
        }
    }
    return 0;
}

static int check_live(const pl_space *space, const census *c)
{
    size_t cursor = 0;

    for (const pl_block *b; (b = pl_ptrmap_next(&space->blocks.live, &cursor)) != NULL;) {
        if (b->state != PL_BLOCK_LIVE || pl_ptrmap_find(&space->blocks.live, b->base) != b) {
            return SPACE + 1;
        }
    }
    if (c->n_live != space->blocks.live.count + space->blocks.n_in_buffers) {
        return SPACE + 1;
    }
    pleat_stats s;
    pl_usages_read(&space->blocks.usages, &s);
    bool is_exact = s.allocation[PLEAT_SIZES_ALL].current == c->n_live &&
                    s.allocated_bytes[PLEAT_SIZES_ALL].current == c->live_bytes &&
                    s.requested_bytes[PLEAT_SIZES_ALL].current == c->requested_bytes;
    bool is_tallied = memcmp(&space->blocks.store.tally, &c->tally, sizeof(c->tally)) == 0;
    return is_exact && is_tallied ? 0 : SPACE + 7;
}

static bool is_stale_sound(const pl_space *space, const census *c)
{
    size_t n = 0;

    for (const pl_block *b = space->blocks.stale.first; b != NULL; b = b->queue_next) {
        n += b->state == PL_BLOCK_STALE;
    }
    return n == c->tally.n_blocks[PL_BLOCK_STALE] && c->n_refused == space->blocks.n_refused &&
           c->n_refused == c->n_refused_told;
}

static bool is_used(const pl_block *b)
{
    return b->state == PL_BLOCK_LIVE || b->state == PL_BLOCK_SHARED ||
           b->state == PL_BLOCK_CAPTURED;
}

/* A block in flight may count or not. */
static bool are_areas_sound(const pl_space *space)
{
    for (const pl_segment *seg = pl_space_lowest(space); seg != NULL; seg = pl_segment_above(seg)) {
        seg->area->n_seen_used = 0;
    }
    for (const pl_segment *seg = pl_space_lowest(space); seg != NULL; seg = pl_segment_above(seg)) {
        for (const pl_block *b = seg->first; b != NULL; b = b->next) {
            seg->area->n_seen_used += is_used(b);
        }
    }
    for (const pl_segment *seg = pl_space_lowest(space); seg != NULL; seg = pl_segment_above(seg)) {
        if (seg->area->n_seen_used != seg->area->n_used) {
            return false;
        }
    }
    return true;
}

static int check_totals(const pl_space *space, const census *c)
{
    bool is_peak = space->flights.n > 0 || space->chunks.peak_pinned >= space->chunks.n_pinned;
    if (c->n_loose != space->chunks.n_loose || !is_peak) {
        return SPACE + 3;
    }
    if (!is_stale_sound(space, c) || c->pending_bytes != space->streams.n_pending_bytes ||
        c->private_pending_bytes != space->streams.n_private_pending_bytes ||
        c->shared_bytes != space->streams.n_shared_bytes ||
        c->private_shared_bytes != space->streams.n_private_shared_bytes) {
        return SPACE + 5;
    }
    if (space->flights.n > 0) {
        return 0;
    }
    if (!are_areas_sound(space)) {
        return SPACE + 8;
    }
    size_t n_live = c->tally.n_live_granules - c->tally.n_live_asleep;
    size_t n_shared = c->tally.n_shared_granules - c->tally.n_shared_asleep;
    if (space->chunks.n_flying != 0 || space->chunks.n_pinned < n_live + n_shared) {
        return SPACE + 3;
    }
    if (space->chunks.n_held !=
            space->chunks.n_idle + space->chunks.n_loose + space->chunks.n_pinned ||
        space->chunks.n_held + space->chunks.n_asleep !=
            space->chunks.n_idle + space->flights.scratched.n_granules + c->n_resident ||
        space->chunks.n_asleep != c->n_asleep || space->chunks.n_creating != 0) {
        return SPACE + 2;
    }
    bool is_within = space->chunks.is_limiting ||
                     space->chunks.n_held <= space->chunks.limit_granules;
    return is_within ? 0 : SPACE + 6;
}

int pl_check_space(const pl_space *space)
{
    census c;
    int broken = check_segments(space);

    if (broken == 0) {
        broken = check_indexes(space);
    }
    if (broken == 0) {
        broken = check_lanes(space);
    }
    if (broken == 0) {
        broken = check_captures(space);
    }
    if (broken == 0 && pl_ptrmap_check(&space->blocks.live) != 0) {
        broken = LIVE_MAP + pl_ptrmap_check(&space->blocks.live);
    }
    if (broken != 0) { /* in a broken segment a count may go anywhere */
        return broken;
    }
    take_census(space, &c);
    broken = check_live(space, &c);
    if (broken == 0) {
        broken = check_references(space);
    }
    return broken != 0 ? broken : check_totals(space, &c);
}

/* ---- for snapshots -------------------------------------------------------------------------- */

static pl_piece_kind piece_kind(const pl_block *b)
{
    switch ((pl_block_state)b->state) {
    case PL_BLOCK_LIVE:
        return PL_PIECE_LIVE;
    case PL_BLOCK_FREE:
        return b->lane == PL_LANE_SETTLED ? PL_PIECE_FREE : PL_PIECE_PENDING;
    case PL_BLOCK_HOLE:
    case PL_BLOCK_STALE:
        return PL_PIECE_HOLE;
    case PL_BLOCK_FLIGHT:
        return b->was == PL_BLOCK_FREE || b->was == PL_BLOCK_SHARED ? PL_PIECE_PENDING
                                                                    : PL_PIECE_HOLE;
    case PL_BLOCK_SHARED:
    case PL_BLOCK_CAPTURED:
        break;
    }
    return PL_PIECE_PENDING;
}

/* The owner's stream for a live block, or the awaited stream for a pending block. */
static pl_stream *piece_stream(const pl_space *space, const pl_block *b, pl_piece_kind kind)
{
    bool has_stream = kind == PL_PIECE_LIVE || (kind == PL_PIECE_PENDING && b->lane != 0);
    return has_stream ? pl_space_lane_at(space, b->lane)->stream : NULL;
}

typedef void (*see_piece)(void *context, const pl_piece *piece);

/* Show the block to the visitor, except for the hole at the end of a segment. The hole is most of
 * the segment, and of no interest. */
static void show(const pl_space *space, const pl_block *b, bool is_first, see_piece see,
                 void *context)
{
    const pl_area *area = b->segment->area;
    pl_piece_kind kind = piece_kind(b);
    bool is_awaited = b->state == PL_BLOCK_SHARED || b->state == PL_BLOCK_CAPTURED;

    if (kind == PL_PIECE_HOLE && b->next == NULL) {
        return;
    }
    pl_piece piece = {
        .base = b->base,
        .bytes = b->bytes,
        .requested_bytes = kind == PL_PIECE_LIVE ? b->requested : 0,
        .awaited_bytes = is_awaited ? b->requested : 0,
        .stream = piece_stream(space, b, kind),
        .segment_stream = area->stream,
        .private_in = pl_keeper_told(area),
        .tag = pl_keeper_tag(area),
        .kind = kind,
        .is_asleep = pl_keeper_is_asleep(area),
        .is_first = is_first,
        .is_small = area->class == PL_CLASS_SMALL,
    };
    see(context, &piece);
}

/* Show at most *n pieces of the segment, from *from on. Moves *from on and counts *n down. */
static void visit_from(const pl_space *space, const pl_segment *seg, pleat_devptr *from, size_t *n,
                       see_piece see, void *context)
{
    const pl_block *b = *from > seg->range.base ? pl_segment_find(seg, *from) : seg->first;
    bool is_first = b->base != *from;

    if (b->base < *from) {
        *from = pl_block_end(b);
        b = b->next;
    }
    for (; b != NULL && *n > 0; b = b->next, --*n) {
        show(space, b, is_first || b == seg->first, see, context);
        is_first = false;
        *from = pl_block_end(b);
    }
}

bool pl_visit_space(const pl_space *space, size_t most, pleat_devptr *from, see_piece see,
                    void *context)
{
    size_t n = most;
    const pl_segment *seg = pl_space_segment_below(space, *from);

    seg = seg != NULL ? seg : pl_space_lowest(space);
    for (; seg != NULL && n > 0; seg = pl_segment_above(seg)) {
        if (seg->range.base + seg->range.bytes > *from) {
            visit_from(space, seg, from, &n, see, context);
        }
    }
    return n == 0;
}
