/* place.c - the search for the place that needs the fewest new granules.
 *
 * A gap is a longest sequence of holes and of free blocks that the lane may use.
 *
 *   live |-- free --|....... hole .......|-- free --|.. hole ..| live
 *        ^          (1)                  ^           (2) ^
 *
 * While a place of fixed size moves to the right, the count of hole granules under the place falls
 * only when the place's start leaves a granule of a hole. The count rises when the place's end
 * enters a granule of a hole. So only two kinds of starts are tried. (1) is the start of the gap,
 * or of a free block behind a hole. (2) is the highest start in the gap, moved down to a granule,
 * if in a hole. A start at a hole behind a free block is never better than the free block's own
 * start.
 *
 * Near the limit the count of pinned granules matters too. Pinned granules differ from granules
 * touched only at the gap's ends, where a granule may hold live bytes already. So the least value
 * is at the gap's start, at the first granule in the gap, or at the end of the gap moved down to a
 * granule.
 *
 * The starts ascend, so a window slides over the gap: `last` moves on block by block, and `first`
 * follows as far as the request fits. Both pass each block once, and the search can stop after any
 * move and go on later. Of all places tried, the least by (new granules, address) wins, in whatever
 * order the gaps are looked at. A rule of somebody's own (policy.h) ranks the places tried; those
 * without room to pin are none.
 *
 * Guarded by the device lock; changes nothing but the order of the holes' queue. */
#include "segments/pleat/grow/place.h"

#include "segments/pleat/grow/policy.h"
#include "segments/pleat/space/run.h"

static bool is_in_gap(const pl_block *b, uint32_t lane)
{
    return b->state == PL_BLOCK_HOLE || pl_run_may_use(b, lane);
}

static bool spend(pl_place_scan *scan)
{
    if (scan->budget == 0) {
        return false;
    }
    scan->budget--;
    return true;
}

/* ---- one place ------------------------------------------------------------------------------- */

static size_t hole_granules(const pl_block *b)
{
    return b->state == PL_BLOCK_HOLE ? b->bytes >> b->segment->granule_log2 : 0;
}

/* Hole granules under the place at `at`, which starts in `first` and ends in `last`. */
static size_t count_new(const pl_place_scan *scan, pleat_devptr at)
{
    const pl_block *first = scan->first;
    const pl_block *last = scan->last;
    const pl_segment *seg = first->segment;
    size_t n = scan->n_last - scan->n_first;

    if (last->state == PL_BLOCK_HOLE) {
        n += pl_segment_granule(seg, at + scan->bytes - 1) - pl_segment_granule(seg, last->base) +
             1;
    }
    if (first->state == PL_BLOCK_HOLE) {
        n -= pl_segment_granule(seg, at) - pl_segment_granule(seg, first->base);
    }
    return n;
}

static size_t count_between(const pl_segment *seg, size_t from, size_t to)
{
    return from == to ? 0
                      : pl_segment_count_loose(seg, pl_segment_address(seg, from),
                                               pl_segment_address(seg, to));
}

/* Loose granules under the place at `at`. Called for the places of a gap in ascending order. */
static size_t count_loose(pl_place_scan *scan, const pl_segment *seg, pleat_devptr at)
{
    size_t from = pl_segment_granule(seg, at);
    size_t to = pl_segment_granule(seg, at + scan->bytes - 1) + 1;

    if (from < scan->loose_to) {
        scan->n_loose += count_between(seg, scan->loose_to, to);
        scan->n_loose -= count_between(seg, scan->loose_from, from);
    } else {
        scan->n_loose = count_between(seg, from, to);
    }
    scan->loose_from = from;
    scan->loose_to = to;
    return scan->n_loose;
}

/* Keep the place at `at` if it is feasible and better than the best so far. */
static void offer(pl_place_scan *scan, pleat_devptr at)
{
    pl_place *best = &scan->best;
    size_t n_new = count_new(scan, at);
    uint64_t rank = n_new;

    if (scan->ranks == NULL && !pl_place_beats(best, rank, at)) {
        return;
    }
    pl_segment *seg = scan->first->segment;
    size_t n_pin = n_new + count_loose(scan, seg, at) +
                   pl_segment_count_loose_beside(seg, at, at + scan->bytes);
    if (n_pin > scan->pin_room) {
        return;
    }
    if (scan->ranks != NULL) {
        rank = pl_policy_rank(scan->ranks, scan->ranks->chunks.n_pinned + scan->pin_room,
                              scan->bytes, at - seg->range.base, n_new, n_pin);
        if (!pl_place_beats(best, rank, at)) {
            return;
        }
    }
    *best = (pl_place){
        .segment = seg,
        .first = at < scan->first->base ? scan->low : scan->first,
        .at = at,
        .n_new = n_new,
        .n_pin = n_pin,
        .rank = rank,
    };
}

/* ---- one gap --------------------------------------------------------------------------------- */

static bool is_near_limit(const pl_place_scan *scan, const pl_segment *seg)
{
    return scan->pin_room < (scan->bytes >> seg->granule_log2) + 2;
}

/* Begin the window at b, where the gap begins, or where the search of it begins anew. */
static void open_window(pl_place_scan *scan, pl_block *b)
{
    scan->first = b;
    scan->last = b;
    scan->low = b;
    scan->n_first = 0;
    scan->n_last = 0;
    scan->base = b->base;
    scan->is_offered = false;
    scan->is_tight = is_near_limit(scan, b->segment);
    scan->loose_from = 0;
    scan->loose_to = 0;
}

/* Walk down from the hole `first` to the start of its gap. If the gap has a lower hole, stop: a gap
 * is looked at from its lowest hole only. Returns false when the budget is spent. */
static bool seek_start(pl_place_scan *scan)
{
    while (scan->last == NULL) {
        pl_block *below = scan->first->prev;
        if (!spend(scan)) {
            return false;
        }
        if (below == NULL || !is_in_gap(below, scan->lane)) {
            open_window(scan, scan->first);
        } else if (below->state == PL_BLOCK_HOLE) {
            scan->first = NULL;
            return true;
        } else {
            scan->first = below;
        }
    }
    return true;
}

/* Is the start of b a start of kind (1)? */
static bool is_start(const pl_place_scan *scan, const pl_block *b)
{
    return b->base == scan->base || (b->state != PL_BLOCK_HOLE && b->prev->state == PL_BLOCK_HOLE);
}

/* Move `first` to the next block. `low` follows: places moved down to a granule start in `low`. */
static void move_first(pl_place_scan *scan)
{
    pl_block *b = scan->first;
    pl_block *next = b->next;
    pleat_devptr floor = pl_segment_floor(b->segment, next->base);

    if (b->base <= floor) {
        scan->low = floor == next->base ? next : b;
    }
    scan->n_first += hole_granules(b);
    scan->first = next;
    scan->is_offered = false;
}

/* Move `first` on as far as the request fits between it and the end of `last`, and offer the starts
 * on the way. Returns false when the budget is spent. */
static bool follow(pl_place_scan *scan)
{
    const pl_segment *seg = scan->last->segment;
    pleat_devptr end = pl_block_end(scan->last);

    if (end - scan->base < scan->bytes) {
        return true;
    }
    pleat_devptr top = end - scan->bytes; /* highest start */
    pleat_devptr tight = pl_segment_ceil(seg, scan->base);
    for (;;) {
        pl_block *b = scan->first;
        if (!scan->is_offered && is_start(scan, b)) {
            offer(scan, b->base);
        }
        scan->is_offered = true;
        if (scan->is_tight && tight <= top && tight < pl_block_end(b)) {
            scan->is_tight = false;
            offer(scan, tight);
        }
        if (b == scan->last || b->next->base > top) {
            return true;
        }
        if (!spend(scan)) {
            return false;
        }
        move_first(scan);
    }
}

/* The window has reached the gap's end, so `first` covers the highest start: kind (2). */
static void offer_highest(pl_place_scan *scan)
{
    const pl_segment *seg = scan->last->segment;
    pleat_devptr end = pl_block_end(scan->last);

    if (end - scan->base < scan->bytes) {
        return;
    }
    pleat_devptr at = pl_segment_floor(seg, end - scan->bytes);
    if (at >= scan->base && (scan->first->state == PL_BLOCK_HOLE || is_near_limit(scan, seg))) {
        offer(scan, at);
    }
}

/* Look through the gap of the hole `first`, or go on with the gap. Returns false if the budget is
 * spent before the gap's end. */
static bool scan_gap(pl_place_scan *scan)
{
    if (!seek_start(scan)) {
        return false;
    }
    while (scan->first != NULL) {
        if (!follow(scan)) {
            return false;
        }
        pl_block *next = scan->last->next;
        if (next == NULL || !is_in_gap(next, scan->lane)) {
            offer_highest(scan);
            scan->first = NULL;
        } else if (spend(scan)) {
            scan->n_last += hole_granules(scan->last);
            scan->last = next;
        } else {
            return false;
        }
    }
    return true;
}

/* ---- many gaps ------------------------------------------------------------------------------- */

void pl_place_begin(pl_place_scan *scan, uint32_t lane, size_t bytes, size_t pin_room)
{
    *scan = (pl_place_scan){
        .lane = lane,
        .bytes = bytes,
        .pin_room = pin_room,
        .budget = PL_PLACE_BUDGET,
    };
}

/* Move the first blocks of the queue, up to b, to the queue's end. */
static void rotate(pl_block_queue *queue, pl_block *b)
{
    if (b == queue->last) {
        return;
    }
    queue->last->queue_next = queue->first;
    queue->first->queue_prev = queue->last;
    queue->last = b;
    queue->first = b->queue_next;
    queue->first->queue_prev = NULL;
    b->queue_next = NULL;
}

bool pl_place_try(pl_place_scan *scan, pl_area *area)
{
    size_t budget = scan->budget;
    pl_block *hole = area->holes.first;

    for (; hole != NULL; hole = hole->queue_next) {
        scan->first = hole;
        scan->last = NULL;
        if (!scan_gap(scan)) {
            rotate(&area->holes, hole);
            break;
        }
    }
    scan->first = NULL;
    pl_lock_touch(budget - scan->budget);
    return hole == NULL;
}

/* The lock was dropped, and the segment may have changed under the scan. If so, begin a window at
 * the scan's address: from the gap's start, the search might never end. */
static void revisit(pl_place_scan *scan)
{
    if (scan->first == NULL) {
        return;
    }
    bool is_same = scan->n_reshaped == scan->segment->n_reshaped &&
                   is_in_gap(scan->first, scan->lane) &&
                   (scan->last == NULL || is_in_gap(scan->last, scan->lane));
    if (is_same) {
        return;
    }
    pl_block *b = pl_segment_find(scan->segment, scan->at);
    scan->first = NULL;
    if (is_in_gap(b, scan->lane)) {
        open_window(scan, b);
    }
}

/* Returns false when the budget is spent. */
static bool scan_segment(pl_place_scan *scan)
{
    pl_block *hole;

    do {
        if (scan->first != NULL && !scan_gap(scan)) {
            bool is_seeking = scan->last == NULL;
            scan->at = is_seeking ? pl_segment_address(scan->segment, scan->granule - 1)
                                  : scan->first->base;
            scan->n_reshaped = scan->segment->n_reshaped;
            return false;
        }
        if (!pl_segment_next_hole(scan->segment, &scan->granule, &scan->budget, &hole)) {
            return false;
        }
        scan->first = hole;
        scan->last = NULL;
    } while (hole != NULL);
    return true;
}

bool pl_place_go_on(pl_place_scan *scan, const pl_area *area)
{
    size_t budget = scan->budget;
    bool is_over = true;

    revisit(scan);
    if (scan->segment == NULL) {
        scan->segment = area->segments;
    }
    while (scan->segment != NULL && is_over) {
        is_over = scan_segment(scan);
        if (is_over) {
            scan->segment = scan->segment->next;
            scan->granule = 0;
        }
    }
    pl_lock_touch(budget - scan->budget);
    return is_over;
}

static void begin(pl_place_scan *scan, const pl_space *space, uint32_t lane, size_t bytes,
                  size_t pin_room)
{
    pl_place_begin(scan, lane, bytes, pin_room);
    scan->ranks = pl_policy_ranks_places(space) ? space : NULL;
}

bool pl_place_search(pl_space *space, pl_pace *pace, pl_area *area, uint32_t lane, size_t bytes,
                     size_t pin_room, pl_place *out)
{
    pl_place_scan scan;

    begin(&scan, space, lane, bytes, pin_room);
    bool is_over = pl_place_try(&scan, area);
    pl_pace_count(space, pace, PL_PLACE_BUDGET - scan.budget);
    if (!is_over && scan.best.segment == NULL) {
        begin(&scan, space, lane, bytes, pin_room);
        while (!pl_place_go_on(&scan, area)) {
            pl_pace_count(space, pace, PL_PLACE_BUDGET - scan.budget);
            scan.budget = PL_PLACE_BUDGET;
        }
        pl_pace_count(space, pace, PL_PLACE_BUDGET - scan.budget);
    }
    if (scan.best.segment == NULL) {
        return false;
    }
    *out = scan.best;
    return true;
}

/* ---- fixed addresses -------------------------------------------------------------------------
 *
 *   the buffer   |#### live ####|-- free --|... hole ...|~ stale ~|#### live ####|... hole ...|
 *   a request                   [at         at + bytes)
 *
 * The request has only one place. The caller bounds how many blocks lie in the place.  */

pleat_status pl_fixed_place(const pl_space *space, const pl_request *rq, pl_place *out)
{
    const pl_segment *seg = rq->in;
    pleat_devptr end = rq->at + rq->bytes;
    pl_block *first = pl_segment_find(seg, rq->at);
    pl_place place = { .segment = rq->in, .first = first, .at = rq->at };
    pleat_status st = PLEAT_OK;

    for (const pl_block *b = first; b != NULL && b->base < end; b = b->next) {
        pleat_devptr from = b->base > rq->at ? b->base : rq->at;
        pleat_devptr to = pl_block_end(b) < end ? pl_block_end(b) : end;
        pl_lock_touch(1);
        if (b->state == PL_BLOCK_HOLE || b->state == PL_BLOCK_STALE) {
            place.n_new += (size_t)((to - from) >> space->granule_log2);
        } else if (b->state == PL_BLOCK_FREE) {
            place.n_pin += pl_segment_count_loose(seg, from, to) +
                           pl_segment_count_loose_beside(seg, from, to);
        }
        if (b->state == PL_BLOCK_STALE && b->is_refused) {
            return PLEAT_EPOISONED;
        }
        if (b->state != PL_BLOCK_HOLE && !pl_run_may_use(b, rq->usable)) {
            st = PLEAT_EPENDING;
        }
    }
    place.n_pin += place.n_new;
    *out = place;
    return st;
}

static bool is_all_free(const pl_request *rq, const pl_block *b)
{
    pleat_devptr end = rq->at + rq->bytes;

    for (; b != NULL && b->base < end; b = b->next) {
        pl_lock_touch(1);
        if (!pl_run_may_use(b, rq->usable)) {
            return false;
        }
    }
    return true;
}

pl_block *pl_fixed_fit(pl_space *space, const pl_request *rq)
{
    pl_block *b = pl_segment_find(rq->in, rq->at);

    if (!is_all_free(rq, b)) {
        return NULL;
    }
    b = pl_carve_out_all(space, b, rq->at, rq->at + rq->bytes);
    pl_space_pin(space, 0);
    pl_segment_become(b->segment, &space->blocks.store, b, PL_BLOCK_LIVE);
    return b;
}
