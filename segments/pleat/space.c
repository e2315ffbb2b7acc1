/* space.c - lanes, areas and segments of one device. Guarded by the device lock. */
#include "segments/pleat/space.h"

#include <sched.h>
#include <string.h>

#include "segments/pleat/capture.h"
#include "segments/pleat/private.h"
#include "segments/pleat/settle.h"

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

/* ---- lanes ----------------------------------------------------------------------------------- */

enum { LOOK_AT = 16 };

/* If streams have to leave that come back, there is room for twice as many. */
static void welcome(pl_crowd *crowd, const pl_stream *stream)
{
    uint64_t id = pl_stream_id(stream);

    if (crowd->left[id % PL_CROWD_IDS] == id) {
        crowd->left[id % PL_CROWD_IDS] = 0;
        crowd->n_left = 0;
        crowd->most_lanes *= crowd->most_lanes < PL_CROWD_MOST ? 2 : 1;
    }
}

/* And for fewer again if none has for long. */
enum { CROWD_PATIENCE = 16 };

static void see_off(pl_crowd *crowd, uint64_t id)
{
    crowd->left[id % PL_CROWD_IDS] = id;
    if (++crowd->n_left / CROWD_PATIENCE >= crowd->most_lanes) {
        crowd->n_left = 0;
        crowd->most_lanes /= crowd->most_lanes > PL_CROWD_LEAST ? 2 : 1;
    }
}

pleat_status pl_space_add_lane(pl_space *space, pl_stream *stream, bool is_capture, pl_lane **out)
{
    uint32_t i = pl_lane_number(stream, is_capture) - 1;

    pl_space_look_for_gone(space, LOOK_AT);
    welcome(&space->crowd, stream);
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
    lane->next_tick = space->clock;
    space->lanes[i] = lane;
    space->n_lanes++;
    if (is_capture) {
        pl_space_lane_at(space, pl_lane_plain(lane->number))->n_refs++;
    }
    *out = lane;
    return PLEAT_OK;
}

void pl_space_lose_lane(pl_space *space, pl_lane *lane)
{
    if (lane->is_gone) {
        return;
    }
    lane->is_gone = true;
    lane->wants_tick = false;
    pl_capture_lose_lane(space, lane);
    if (!lane->is_silent) {
        pl_settle_leave_to_context(space, lane);
    }
}

static bool is_at_rest(const pl_lane *lane)
{
    return lane->n_live == 0 && lane->n_refs == 0 && !lane->busy.is_linked && !lane->is_recording &&
           !lane->is_polled;
}

static void return_ticks(pl_space *space, pl_lane *lane)
{
    for (; lane->n_ticks > 0; lane->n_ticks--) {
        pl_fence_return(lane->ticks[lane->first_tick].fence);
        lane->first_tick = (lane->first_tick + 1) % PL_LANE_TICKS;
    }
    pl_lane_ring_remove_ticking(&space->ticking, lane);
    pl_lane_ring_remove_ripe(&space->ripe, lane);
}

/* The stream's other lane, or NULL. */
static pl_lane *other_of(const pl_space *space, const pl_lane *lane)
{
    uint32_t other = pl_lane_plain(lane->number) + !lane->is_capture;

    return other <= space->n_lane_rooms ? space->lanes[other - 1] : NULL;
}

static void give_up(pl_space *space, pl_lane *lane)
{
    return_ticks(space, lane);
    for (int class = 0; class < PL_N_CLASSES; class ++) {
        if (lane->areas[class] != NULL) {
            lane->areas[class]->n_lanes--;
        }
    }
    pl_capture_lose_lane(space, lane);
    space->lanes[lane->number - 1] = NULL;
    space->n_lanes--;
    if (lane->is_capture) {
        other_of(space, lane)->n_refs--;
    }
    pl_host_free(&space->host, lane);
}

/* Nobody knows the lane any more. The stream goes with the second of its lanes. */
static void give_up_gone(pl_space *space, pl_lane *lane)
{
    pl_lane *other = other_of(space, lane);
    pl_stream *stream = lane->stream;
    bool is_labelling = lane->is_labelling;

    give_up(space, lane);
    if (other != NULL) {
        other->is_labelling |= is_labelling;
    } else if (!is_labelling) {
        pl_stream_release(stream);
    }
}

/* Has it been quiet since the last look? */
static bool is_quiet(pl_lane *lane)
{
    bool is_same = lane->seen_next_tick == lane->next_tick && lane->seen_n_frees == lane->n_frees;

    lane->seen_next_tick = lane->next_tick;
    lane->seen_n_frees = lane->n_frees;
    return is_same;
}

/* Nothing refers to the lane, but its stream may be named again, and is a new one then. What is
 * known of a capture, and the stream that an area is told to be of, is not given up so. */
static void let_leave(pl_space *space, pl_lane *lane)
{
    const pl_lane *plain = pl_space_lane_at(space, pl_lane_plain(lane->number));
    uint64_t id = pl_stream_id(lane->stream); /* the object may be another stream's at once */

    if (!is_quiet(lane) || plain->capture != NULL || lane->is_labelling) {
        return;
    }
    if (lane->is_capture) {
        give_up(space, lane); /* the other one is there */
    } else if (pl_stream_try_release(lane->stream)) {
        see_off(&space->crowd, id);
        give_up(space, lane);
    }
}

void pl_space_look_for_gone(pl_space *space, unsigned n)
{
    n = n < space->n_lane_rooms ? n : space->n_lane_rooms;
    pl_lock_touch(n);
    for (; n > 0; n--) {
        space->looked_at = space->looked_at + 1 < space->n_lane_rooms ? space->looked_at + 1 : 0;
        pl_lane *lane = space->lanes[space->looked_at];
        if (lane == NULL) {
            continue;
        }
        bool is_gone = pl_stream_is_gone(lane->stream);
        if (is_gone) {
            pl_space_lose_lane(space, lane);
        }
        if (is_at_rest(lane) && is_gone) {
            give_up_gone(space, lane);
        } else if (is_at_rest(lane) && pl_space_is_crowded(space)) {
            let_leave(space, lane);
        }
    }
}

/* ---- areas ----------------------------------------------------------------------------------- */

/* One that a stream which is gone has left; else a new one; else the one with the fewest streams.
 * */
static pl_area *choose_area(pl_space *space, pl_lane *lane, pl_class class)
{
    pl_area **areas = space->areas[class];
    pl_area *fewest = NULL;

    for (unsigned i = 0; i < space->n_areas[class]; i++) {
        if (fewest == NULL || areas[i]->n_lanes < fewest->n_lanes) {
            fewest = areas[i];
        }
    }
    if (fewest != NULL && (fewest->n_lanes == 0 || space->n_areas[class] == PL_MOST_AREAS)) {
        return fewest;
    }
    pl_area *area = pl_area_create(&space->host, lane->stream, class);
    if (area != NULL) {
        areas[space->n_areas[class]++] = area;
        lane->is_labelling = true;
    }
    return area;
}

pleat_status pl_space_area(pl_space *space, pl_lane *lane, pl_class class, pl_area **out)
{
    if (__builtin_expect(lane->areas[class] == NULL, false)) {
        pl_area *area = choose_area(space, lane, class);
        if (area == NULL) {
            return PLEAT_ENOMEM_HOST;
        }
        area->n_lanes++;
        lane->areas[class] = area;
    }
    *out = lane->areas[class];
    return PLEAT_OK;
}

pl_area *pl_space_next_area(const pl_space *space, const pl_private *pool, pl_area_cursor *cursor)
{
    while (pool == NULL && cursor->class < PL_N_CLASSES) {
        if (cursor->i < space->n_areas[cursor->class]) {
            return space->areas[cursor->class][cursor->i++];
        }
        cursor->class ++;
        cursor->i = 0;
    }
    if (!cursor->is_listing) {
        cursor->is_listing = true;
        cursor->listed = pool != NULL ? pool->areas : space->released;
    } else if (cursor->listed != NULL) {
        bool is_listed = cursor->listed->pool == pool; /* or recycled while the lock was dropped */
        cursor->listed = is_listed ? cursor->listed->next : NULL;
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
    pl_tell(space->observer, action, b->base, b->requested,
            pl_space_lane_at(space, b->lane)->stream, pl_private_told(b->segment->area));
}

void pl_space_say_run(const pl_space *space, pl_action action, const pl_segment *seg,
                      pleat_devptr base, uint64_t bytes)
{
    pl_tell(space->observer, action, base, bytes, seg->area->stream, pl_private_told(seg->area));
}

/* ---- flights --------------------------------------------------------------------------------- */

void pl_space_take_off(pl_space *space, pl_flying *flying)
{
    *flying = (pl_flying){ .prev = space->last_flying, .number = ++space->n_taken_off };
    *(space->last_flying != NULL ? &space->last_flying->next : &space->first_flying) = flying;
    space->last_flying = flying;
    space->n_flights++;
}

void pl_space_land(pl_space *space, pl_flying *flying)
{
    *(flying->prev != NULL ? &flying->prev->next : &space->first_flying) = flying->next;
    *(flying->next != NULL ? &flying->next->prev : &space->last_flying) = flying->prev;
    space->n_flights--;
    if (space->n_waiting > 0) {
        pthread_cond_broadcast(&space->landed);
    }
}

void pl_space_wait_for_flights(pl_space *space)
{
    uint64_t last = space->n_taken_off;

    space->n_waiting++;
    while (space->first_flying != NULL && space->first_flying->number <= last) {
        pl_lock_wait(&space->lock, &space->landed);
    }
    space->n_waiting--;
}

void pl_space_breathe(pl_space *space)
{
    pl_lock_release(&space->lock);
    (void)sched_yield();
    pl_lock_acquire(&space->lock);
}

void pl_pace_count(pl_space *space, pl_pace *pace, size_t n)
{
    space->n_pieces += n;
    if (!pace->is_unbroken && pl_space_is_tired(space, pace->since)) {
        pl_space_breathe(space);
        pace->has_breathed = true;
        pace->since = space->n_pieces;
    }
}
