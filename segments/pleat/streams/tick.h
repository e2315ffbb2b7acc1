/* tick.h - fences that tell when the work of a lane's stream is over: recorded, wished for, polled.
 *
 * A stream's handle is used only in calls that name the stream, unless the stream is known to be
 * alive (settle.c). A call that wants a tick of another stream leaves a wish in its lane, and the
 * next call that names that stream records the tick.
 * Memory of streams that no call names any more waits for a tick of the context (context.h).
 *
 * Every function here is called with the space's lock held and may drop it while it talks to the
 * driver; state seen before the call may be stale after it. */
#ifndef PLEAT_SEGMENTS_TICK_H
#define PLEAT_SEGMENTS_TICK_H

#include "segments/pleat/space/space.h"

enum { PL_TICK_QUERIES = 32 }; /* fences queried before growing */

/* Record a tick, in a call that names the stream. If that fails (host memory, the driver, a
 * capture), a later tick covers the same frees. */
void pl_tick_record(pl_space *space, pl_lane *lane);
/* The caller named the lane's stream and did nothing that a tick should cover: record one if
 * somebody waits for it. */
void pl_tick_record_if_wanted(pl_space *space, pl_lane *lane);
/* So many bytes wait for a tick of the lane: leave a wish for one. */
void pl_tick_wish(pl_space *space, pl_lane *lane, size_t bytes);

/* Query the oldest ticks of at most n lanes, those first whose last query is longest ago, and the
 * context's tick. Returns whether anything passed. */
bool pl_tick_poll(pl_space *space, size_t n);
/* The same for one lane. */
bool pl_tick_poll_lane(pl_space *space, pl_lane *lane);
/* The context's tick was queried and is done with: note whether it has passed, return its fence. */
void pl_tick_end_context(pl_space *space, bool has_passed);
/* Block the host until the lane's newest tick has passed, at most wait_ms. PLEAT_OK (also when it
 * has none); EPENDING; EDRIVER. */
pleat_status pl_tick_wait(pl_space *space, pl_lane *lane, uint32_t wait_ms);

#endif
