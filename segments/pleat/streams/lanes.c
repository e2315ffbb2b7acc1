/* lanes.c - see lanes.h. Guarded by the device lock. */
#include "segments/pleat/streams/lanes.h"

#include "segments/pleat/streams/capture_see.h"
#include "segments/pleat/streams/settle.h"
#include "segments/pleat/streams/tick.h"

/* ---- their end ------------------------------------------------------------------------------- */

/* `life`: gone or closed. */
static void lose(pl_space *space, pl_lane *lane, pl_lane_life life)
{
    bool was_lost = pl_lane_is_lost(lane);

    if (pl_lane_is_gone(lane)) {
        return;
    }
    lane->life = life;
    pl_capture_lose_lane(space, lane);
    if (!was_lost) {
        pl_settle_leave_to_context(space, lane);
    }
}

void pl_lanes_lose(pl_space *space, pl_lane *lane)
{
    lose(space, lane, PL_LANE_GONE);
}

/* If a call is still recording a tick, the last tick comes behind. The caller's n_refs keep the
 * lane. */
void pl_lanes_retire(pl_space *space, pl_lane *lane)
{
    while (lane->is_recording) {
        pl_space_wait(space);
    }
    uint64_t number = pl_lane_stamp(space, lane);

    pl_tick_record(space, lane);
    lose(space, lane, lane->recorded_tick >= number ? PL_LANE_CLOSED : PL_LANE_GONE);
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
    pl_lane_ring_remove_ticking(&space->streams.ticking, lane);
}

/* The stream's other lane, or NULL. */
static pl_lane *other_of(const pl_space *space, const pl_lane *lane)
{
    uint32_t other = pl_lane_plain(lane->number) + !lane->is_capture;

    return other <= space->streams.capacity ? space->streams.lanes[other - 1] : NULL;
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
    space->streams.lanes[lane->number - 1] = NULL;
    space->streams.n_lanes--;
    if (lane->is_capture) {
        other_of(space, lane)->n_refs--;
    }
    pl_meta_free(&space->meta, lane);
}

/* Nothing refers to the lane any more. The stream is released with the last of its lanes. */
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

/* Was nothing freed on the lane since the last look? */
static bool had_no_free(pl_lane *lane)
{
    bool is_same = lane->seen_next == lane->clock.next && lane->seen_n_frees == lane->n_frees;

    lane->seen_next = lane->clock.next;
    lane->seen_n_frees = lane->n_frees;
    return is_same;
}

/* Give up a lane that nothing refers to. If its stream is named again, the lane counts as new. A
 * lane stays if its stream was last seen in a capture, or if an area refers to the stream. */
static void let_leave(pl_space *space, pl_lane *lane)
{
    const pl_lane *plain = pl_space_lane_at(space, pl_lane_plain(lane->number));

    if (!had_no_free(lane) || plain->capture != NULL || lane->is_labelling) {
        return;
    }
    if (lane->is_capture) {
        give_up(space, lane); /* the first lane stays, and keeps the stream */
    } else if (pl_stream_try_release(lane->stream)) {
        give_up(space, lane);
    }
}

void pl_lanes_look_for_gone(pl_space *space, unsigned n)
{
    n = n < space->streams.capacity ? n : (unsigned)space->streams.capacity;
    pl_lock_touch(n);
    for (; n > 0; n--) {
        space->streams.looked_at = space->streams.looked_at + 1 < space->streams.capacity
                                       ? space->streams.looked_at + 1
                                       : 0;
        pl_lane *lane = space->streams.lanes[space->streams.looked_at];
        if (lane == NULL) {
            continue;
        }
        bool is_gone = pl_stream_is_gone(lane->stream);
        if (is_gone) {
            pl_lanes_lose(space, lane);
        }
        if (is_at_rest(lane) && is_gone) {
            give_up_gone(space, lane);
        } else if (is_at_rest(lane) && pl_space_is_crowded(space)) {
            let_leave(space, lane);
        }
    }
}

/* ---- their beginning ------------------------------------------------------------------------- */

enum { LOOK_AT = 16 };

pleat_status pl_lanes_add(pl_space *space, pl_stream *stream, bool is_capture, pl_lane **out)
{
    uint32_t i = pl_lane_number(stream, is_capture) - 1;

    pl_lanes_look_for_gone(space, LOOK_AT);
    pleat_status st = pl_space_reserve_entries(space, &space->streams.lanes, sizeof(pl_lane *),
                                               &space->streams.capacity, i);
    if (st != PLEAT_OK) {
        return st;
    }
    pl_lane *lane = pl_meta_calloc(&space->meta, 1, sizeof(*lane));
    if (lane == NULL) {
        return PLEAT_ENOMEM_HOST;
    }
    lane->stream = stream;
    lane->number = i + 1;
    lane->is_capture = is_capture;
    lane->clock.next = space->streams.newest_stamp;
    space->streams.lanes[i] = lane;
    space->streams.n_lanes++;
    if (is_capture) {
        pl_space_lane_at(space, pl_lane_plain(lane->number))->n_refs++;
    }
    *out = lane;
    return PLEAT_OK;
}
