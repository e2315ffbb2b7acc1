/* tick.h - fences that tell when the work of a lane's stream is over: recorded, wished for, polled.
 *
 * A stream's handle is used only in calls that name the stream, unless the stream is surely alive
 * (settle.c). A call that wants a tick of another stream leaves a wish in its lane. The next call
 * that names the stream records the tick. If no call names the stream any more, its memory waits
 * for a tick of the context (context.h).
 *
 * Every function of this file is called with the space's lock held, and may drop the lock for
 * driver calls. State seen before the call may be stale after the call. */
#ifndef PLEAT_SEGMENTS_TICK_H
#define PLEAT_SEGMENTS_TICK_H

#include "segments/pleat/space/space.h"

enum { PL_TICK_QUERIES = 32 }; /* fences queried before growing */

/* Record a tick, in a call that names the stream. If recording fails (host memory, the driver, a
 * capture), a later tick covers the same frees. */
void pl_tick_record(pl_space *space, pl_lane *lane);
/* The caller named the lane's stream, and did nothing to cover: record a tick only if one is
 * wanted. */
void pl_tick_record_if_wanted(pl_space *space, pl_lane *lane);
/* `bytes` wait for a tick of the lane: leave a wish. */
void pl_tick_wish(pl_space *space, pl_lane *lane, size_t bytes);

/* Query the oldest ticks of at most n lanes, and the context's tick. Lanes queried longest ago come
 * first. Returns whether anything passed. */
bool pl_tick_poll(pl_space *space, size_t n);
/* As pl_tick_poll, for one lane. */
bool pl_tick_poll_lane(pl_space *space, pl_lane *lane);
/* The context's tick was queried, and is done with. Note whether the tick has passed, and return
 * its fence. */
void pl_tick_end_context(pl_space *space, bool has_passed);
/* Block the host until the fence has passed, at most wait_ms, and return the caller's share of the
 * fence. PLEAT_OK; EPENDING; EDRIVER. */
pleat_status pl_tick_await(pl_space *space, pl_fence *fence, uint32_t wait_ms);
/* Block the host until the lane's newest tick has passed, at most wait_ms. PLEAT_OK (also without a
 * tick); EPENDING; EDRIVER. */
pleat_status pl_tick_wait(pl_space *space, pl_lane *lane, uint32_t wait_ms);
/* Block the host, at most wait_ms, until the newest tick of any lane has passed, among busy lanes
 * that the turn has not tried. A lane is tried once its tick has passed, or cannot be waited for.
 * Returns false if no lane is left to try, else *st: PLEAT_OK; EPENDING; EDRIVER. */
bool pl_tick_wait_any(pl_space *space, uint64_t turn, uint32_t wait_ms, pleat_status *st);

/* ---- when a tick is due ----
 *
 * A tick costs up to seven calls of the driver. Memory without a tick serves no other stream. So
 * the frees and uses on a lane since its last tick decide. docs/design/streams.md has the
 * rules. Guarded by the device lock; never calls the driver. */

enum { PL_FREES_PER_TICK = 32, PL_FREES_PER_LOOK = 8 };

static inline bool pl_due_is_legacy(const pl_lane *lane)
{
    return lane->stream != NULL && pl_stream_is_legacy(lane->stream);
}

/* May any call give the handle of the lane's stream to the driver? The legacy stream is never
 * destroyed. A stream that the program promised to keep lives until retired. Retiring waits for a
 * tick under way (lanes.c). */
static inline bool pl_due_stays(const pl_lane *lane)
{
    return lane->stream != NULL && !pl_lane_is_gone(lane) &&
           (pl_due_is_legacy(lane) || pl_stream_is_told(lane->stream));
}

/* A freed block of `bytes`, used by the lane's stream besides the owner, waits for a tick of the
 * lane. If a tick is due, wish for one. */
void pl_due_used(pl_space *space, pl_lane *lane, size_t bytes);

/* The lane has just freed `bytes`: is a tick due? */
bool pl_due_is_time(const pl_space *space, const pl_lane *lane, size_t bytes);
/* The call of another stream looks at the lane: is a tick worth a wish? */
bool pl_due_is_worth(const pl_space *space, const pl_lane *lane);

#endif
