/* place.c - the search for the place that needs the fewest new granules.
 *
 * A gap is a longest sequence of holes and of free blocks that the lane may use.
 *
 *   live |-- free --|....... hole .......|-- free --|.. hole ..| live
 *        ^          (1)                  ^           (2) ^
 *
 * Moving a place of fixed size to the right, the count of hole granules under it falls only when
 * its start leaves a granule of a hole, and rises when its end enters one. So the least count is
 * reached (1) where the place starts with the gap or with a free block behind a hole, or (2) where
 * it ends with the gap and starts in a hole, moved down to a granule. Only those are tried. A
 * start at a hole behind a free block is never better than the start of that free block.
 *
 * Guarded by the device lock; reads only. */
#include "segments/place.h"

#include "segments/run.h"

typedef struct gap {
    pl_block *first;
    pl_block *last;
    pleat_devptr end;
} gap;

static bool is_in_gap(const pl_block *b, uint32_t lane)
{
    return b->state == PL_BLOCK_HOLE || pl_run_may_use(b, lane);
}

/* The gap around a hole; false if a lower hole is in it too, which finds the same gap. */
static bool gap_around(pl_block *hole, uint32_t lane, gap *out)
{
    *out = (gap){ .first = hole, .last = hole };
    while (out->first->prev != NULL && is_in_gap(out->first->prev, lane)) {
        out->first = out->first->prev;
        if (out->first->state == PL_BLOCK_HOLE) {
            return false;
        }
    }
    while (out->last->next != NULL && is_in_gap(out->last->next, lane)) {
        out->last = out->last->next;
    }
    out->end = pl_block_end(out->last);
    return true;
}

/* Hole granules that [at, at + bytes) touches, counted from its first block; stops above `most`. */
static size_t count_new(const pl_segment *seg, const pl_block *b, pleat_devptr at, size_t bytes,
                        size_t most)
{
    pleat_devptr end = at + bytes;
    size_t n = 0;

    for (; b != NULL && b->base < end && n <= most; b = b->next) {
        if (b->state != PL_BLOCK_HOLE) {
            continue;
        }
        pleat_devptr low = b->base > at ? b->base : at;
        pleat_devptr high = pl_block_end(b) < end ? pl_block_end(b) : end;
        n += pl_segment_granule(seg, high - 1) - pl_segment_granule(seg, low) + 1;
    }
    return n;
}

/* Keep the place at `at` if it is feasible and better than the best so far. */
static void offer(pl_segment *seg, pl_block *first, pleat_devptr at, size_t bytes, size_t pin_room,
                  pl_place *best)
{
    size_t most = best->segment != NULL ? best->n_new : SIZE_MAX - 1;
    size_t n_new = count_new(seg, first, at, bytes, most);

    if (n_new > most || (n_new == most && (best->segment != NULL) && at >= best->at)) {
        return;
    }
    size_t n_pin = n_new + pl_segment_count_loose(seg, at, at + bytes);
    if (n_pin > pin_room) {
        return;
    }
    *best = (pl_place){
        .segment = seg,
        .first = first,
        .at = at,
        .n_new = n_new,
        .n_pin = n_pin,
    };
}

/* Near the limit the count of pinned granules decides too. It differs from the granules touched
 * only at the gap's ends, where a granule may hold live bytes already, so its least value is at
 * the gap's start, at the first granule in it, or at the end of the gap moved down to a granule. */
static void offer_tight(pl_segment *seg, const gap *g, size_t bytes, size_t pin_room,
                        pl_place *best)
{
    pleat_devptr starts[2] = { pl_segment_ceil(seg, g->first->base),
                               pl_segment_floor(seg, g->end - bytes) };

    for (int i = 0; i < 2; i++) {
        if (starts[i] < g->first->base || starts[i] + bytes > g->end) {
            continue;
        }
        pl_block *b = g->first;
        while (pl_block_end(b) <= starts[i]) {
            b = b->next;
        }
        offer(seg, b, starts[i], bytes, pin_room, best);
    }
}

static void search_gap(pl_segment *seg, const gap *g, size_t bytes, size_t pin_room, pl_place *best)
{
    if (g->end - g->first->base < bytes) {
        return;
    }
    pleat_devptr top = g->end - bytes; /* highest start */
    if (pin_room < (bytes >> seg->granule_log2) + 2) {
        offer_tight(seg, g, bytes, pin_room, best);
    }
    for (pl_block *b = g->first; b != NULL && b->base <= top; b = b->next) {
        bool is_hole = b->state == PL_BLOCK_HOLE;
        if (b == g->first || (!is_hole && b->prev->state == PL_BLOCK_HOLE)) {
            offer(seg, b, b->base, bytes, pin_room, best);
        }
        if (is_hole && top < pl_block_end(b)) {
            offer(seg, b, pl_segment_floor(seg, top), bytes, pin_room, best);
        }
        if (b == g->last) {
            break;
        }
    }
}

bool pl_place_search(const pl_area *area, uint32_t lane, size_t bytes, size_t pin_room,
                     pl_place *out)
{
    pl_place best = { 0 };

    for (pl_block *hole = area->holes.first; hole != NULL; hole = hole->queue_next) {
        gap g;
        if (gap_around(hole, lane, &g)) {
            search_gap(hole->segment, &g, bytes, pin_room, &best);
        }
    }
    if (best.segment == NULL) {
        return false;
    }
    *out = best;
    return true;
}
