/* space.c - lanes, areas and segments of one device. Guarded by the device lock. */
#include "segments/space.h"

#include <string.h>

#include "segments/private.h"
#include "segments/run.h"

/* Grow an array of pointers so that index i fits; new entries are NULL. */
static pleat_status reach(pl_host *host, void *array, uint32_t *n_rooms, uint32_t i)
{
    void **old;

    if (i < *n_rooms) {
        return PLEAT_OK;
    }
    uint32_t n = i + i / 2 + 8;
    memcpy(&old, array, sizeof(old));
    void **grown = pl_host_realloc(host, old, n * sizeof(void *));
    if (grown == NULL) {
        return PLEAT_ENOMEM_HOST;
    }
    memset(grown + *n_rooms, 0, (n - *n_rooms) * sizeof(void *));
    memcpy(array, &grown, sizeof(grown));
    *n_rooms = n;
    return PLEAT_OK;
}

/* A second stream has come: from now on it matters when the first one's frees are settled. */
static void queue_all_pending(pl_space *space)
{
    for (uint32_t i = 0; i < space->n_segments; i++) {
        for (pl_block *b = space->segments[i]->first; b != NULL; b = b->next) {
            if (b->state == PL_BLOCK_FREE && b->lane != PL_LANE_SETTLED) {
                pl_lane *lane = space->lanes[b->lane - 1];
                bool is_apart = b->segment->is_private;
                b->tick = lane->next_tick;
                pl_queue_push(is_apart ? &lane->apart : &lane->pending, b);
                *(is_apart ? &lane->apart_bytes : &lane->pending_bytes) += b->bytes;
            }
        }
    }
}

pleat_status pl_space_add_lane(pl_space *space, pl_stream *stream, bool is_capture, pl_lane **out)
{
    uint32_t i = pl_lane_number(stream, is_capture) - 1;

    pleat_status st = reach(&space->host, &space->lanes, &space->n_lane_rooms, i);
    if (st != PLEAT_OK) {
        return st;
    }
    pl_lane *lane = pl_host_calloc(&space->host, 1, sizeof(*lane));
    if (lane == NULL) {
        return PLEAT_ENOMEM_HOST;
    }
    lane->stream = stream;
    lane->number = i + 1;
    lane->is_capture = is_capture;
    lane->next_tick = 1;
    space->lanes[i] = lane;
    space->n_lanes++;
    if (space->n_lanes == 2) {
        queue_all_pending(space);
    }
    *out = lane;
    return PLEAT_OK;
}

pleat_status pl_space_area(pl_space *space, pl_lane *lane, pl_class class, pl_area **out)
{
    uint32_t i = (lane->number - 1) * PL_N_CLASSES + class;

    if (i < space->n_area_rooms && space->areas[i] != NULL) {
        *out = space->areas[i];
        return PLEAT_OK;
    }
    pleat_status st = reach(&space->host, &space->areas, &space->n_area_rooms, i);
    if (st != PLEAT_OK) {
        return st;
    }
    pl_area *area = pl_area_create(&space->host, lane->number, class);
    if (area == NULL) {
        return PLEAT_ENOMEM_HOST;
    }
    space->areas[i] = area;
    *out = area;
    return PLEAT_OK;
}

pl_area *pl_space_next_area(const pl_space *space, const pl_private *pool, pl_area_cursor *cursor)
{
    while (pool == NULL && cursor->i < space->n_area_rooms) {
        pl_area *area = space->areas[cursor->i++];
        if (area != NULL) {
            return area;
        }
    }
    if (!cursor->is_listing) {
        cursor->is_listing = true;
        cursor->listed = pool != NULL ? pool->areas : space->released;
    } else if (cursor->listed != NULL) {
        cursor->listed = cursor->listed->next;
    }
    return cursor->listed;
}

pleat_status pl_space_add_segment(pl_space *space, pl_area *area, pl_range range)
{
    pl_segment *seg;
    pleat_status st = reach(&space->host, &space->segments, &space->n_segment_rooms,
                            space->n_segments);

    if (st == PLEAT_OK) {
        st = pl_segment_create(&space->host, &space->store, area, range, space->granule_log2, &seg);
    }
    if (st != PLEAT_OK) {
        return st;
    }
    seg->is_private = area->pool != NULL;
    *(area->newest != NULL ? &area->newest->next : &area->segments) = seg;
    area->newest = seg;
    pl_queue_push(&area->holes, seg->first);
    uint32_t i = space->n_segments++;
    for (; i > 0 && space->segments[i - 1]->range.base > range.base; i--) {
        space->segments[i] = space->segments[i - 1];
    }
    space->segments[i] = seg;
    return PLEAT_OK;
}

pl_segment *pl_space_segment_at(const pl_space *space, pleat_devptr at)
{
    uint32_t low = 0;
    uint32_t high = space->n_segments;

    while (low < high) {
        uint32_t middle = (low + high) / 2;
        pl_segment *seg = space->segments[middle];
        if (at < seg->range.base) {
            high = middle;
        } else if (at - seg->range.base >= seg->range.bytes) {
            low = middle + 1;
        } else {
            return seg;
        }
    }
    return NULL;
}

/* After so many events a driver that refused memory is asked again: others may have left. */
enum { PL_FULL_EVENTS = 10000 };

size_t pl_space_cap(const pl_space *space)
{
    size_t cap = space->total_chunks;

    cap = space->limit_chunks < cap ? space->limit_chunks : cap;
    if (space->full_at < cap && space->budget.n_events - space->full_event < PL_FULL_EVENTS) {
        size_t held = space->n_chunks + space->n_creating; /* others may have been served since */
        size_t full = space->full_at > held ? space->full_at : held;
        cap = full < cap ? full : cap;
    }
    return cap;
}

void pl_space_say_block(const pl_space *space, pl_action action, const pl_block *b)
{
    pl_tell(space->options.observer, action, b->base, b->requested,
            space->lanes[b->lane - 1]->stream, b->segment->area->pool);
}

void pl_space_say_run(const pl_space *space, pl_action action, const pl_segment *seg,
                      pleat_devptr base, uint64_t bytes)
{
    pl_stream *stream = space->lanes[seg->area->lane - 1]->stream;

    pl_tell(space->options.observer, action, base, bytes, stream, seg->area->pool);
}
