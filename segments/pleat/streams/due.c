/* due.c - see due.h. */
#include "segments/pleat/streams/due.h"

#include "segments/pleat/streams/tick.h"

enum { FREES_WHEN_TIGHT = 16, SHORT_EVENTS = 4096, LANE_LOG2 = 8 };

/* Uses may wait for a tick up to these parts of the held memory, on one lane and on all lanes. */
enum { USES_LANE_LOG2 = 10, USES_ALL_LOG2 = 8 };

/* More than a part of the held memory? */
static bool is_much(const pl_space *space, size_t bytes, unsigned share_log2)
{
    return bytes >> space->granule_log2 > space->n_chunks >> share_log2;
}

/* Since its last tick the lane has freed more than a part of the held memory: worth a tick. */
static bool has_freed_much(const pl_space *space, const pl_lane *lane)
{
    return is_much(space, lane->unticked_bytes, LANE_LOG2);
}

/* Near the limit another stream will soon want the freed memory, but can be ordered only after a
 * tick. */
static bool is_tight(const pl_space *space)
{
    size_t cap = pl_space_cap(space);

    return space->n_chunks + space->n_creating + (cap >> 4) >= cap;
}

/* Not long ago a request needed memory that pended on other streams. With several streams every
 * free then gets a tick, so that the next request finds all pending memory covered. */
static bool is_short(const pl_space *space)
{
    return space->short_event != 0 && space->n_events - space->short_event < SHORT_EVENTS;
}

/* A lane in use records a tick by itself before long. Of many lanes nearly all have a little memory
 * without a tick. So an early tick is worth a wish only if the tick covers much, if no free will
 * record a tick, or if memory is short. In very many lanes, small amounts add up. */
bool pl_due_is_worth(const pl_space *space, const pl_lane *lane)
{
    uint64_t n_quiet = space->n_events - lane->free_event;
    uint32_t n_worth = space->n_lanes > PL_LANE_LOOKS ? PL_FREES_PER_LOOK : PL_FREES_PER_TICK;
    uint32_t n = lane->n_frees + lane->n_uses;

    return n == 0 || n >= n_worth || has_freed_much(space, lane) ||
           n_quiet > PL_FREES_PER_TICK + (uint64_t)PL_FREES_PER_LOOK * space->n_lanes ||
           lane->wants_tick || is_short(space);
}

/* A short-lived stream may be destroyed after this free, too soon for a later tick. So a young lane
 * without a live block gets a tick. */
bool pl_due_is_time(const pl_space *space, const pl_lane *lane, size_t bytes)
{
    bool is_young = lane->n_lifetime < PL_LANE_YOUNG;

    if (lane->is_idle) { /* frees are over at once, and the lane goes with the device */
        return lane->wants_tick;
    }
    if (pl_device_is_host(space->dev) && bytes >= space->granule_bytes) {
        return true; /* no reuse before a tick: no order of streams holds the host back */
    }
    if (lane->wants_tick || (is_short(space) && pl_space_has_many_lanes(space))) {
        return true;
    }
    if (is_young && lane->n_live == 0 && !pl_due_is_legacy(lane)) {
        return true;
    }
    if (!pl_space_has_many_lanes(space)) {
        return false;
    }
    return lane->n_frees >= PL_FREES_PER_TICK || (bytes >= space->granule_bytes && is_young) ||
           ((has_freed_much(space, lane) || lane->n_frees >= FREES_WHEN_TIGHT) &&
            is_tight(space)) ||
           lane->unticked_bytes >> space->granule_log2 > space->total_chunks >> 6;
}

/* Nobody can have this memory before the tick, nor be ordered behind the uses, unlike memory freed
 * on its own stream. So a tick is due as soon as much memory waits, on this lane or on all lanes.
 * At every use a tick is due if memory is tight, or if the stream may be gone before its next
 * tick. */
static bool is_time_for_uses(const pl_space *space, const pl_lane *lane, size_t bytes)
{
    size_t n_waiting = space->n_shared_bytes + space->n_private_shared_bytes + bytes;

    return lane->n_used < PL_LANE_YOUNG || lane->is_gone || lane->is_silent ||
           lane->n_uses >= PL_FREES_PER_TICK || is_much(space, lane->used_bytes, USES_LANE_LOG2) ||
           is_much(space, n_waiting, USES_ALL_LOG2) || is_tight(space) || is_short(space);
}

void pl_due_used(pl_space *space, pl_lane *lane, size_t bytes)
{
    bool is_young = lane->n_used < PL_LANE_YOUNG;

    lane->n_uses++;
    lane->used_bytes += bytes;
    lane->free_event = space->n_events;
    if (is_time_for_uses(space, lane, bytes)) {
        pl_tick_wish(space, lane, bytes);
    }
    lane->n_used += is_young;
}
