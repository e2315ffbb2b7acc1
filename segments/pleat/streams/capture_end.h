/* capture_end.h - which blocks go on when a capture ends, and when its graph is gone.
 *
 * First the capture ends: a stream of it is seen elsewhere, all its streams or its graph are gone,
 * the route of its pool ends, or its owner says so. The graph is gone when the driver says so, or
 * its owner (capture_owner.h). Guarded by the device lock. */
#ifndef PLEAT_SEGMENTS_CAPTURE_END_H
#define PLEAT_SEGMENTS_CAPTURE_END_H

#include "segments/pleat/streams/capture.h"

/* The capture was seen to end: some blocks that waited for that only go on. A broken capture, which
 * has no graph, is released as well. */
void pl_capture_see_end(pl_space *space, pl_capture *capture);
/* The capture's graph is gone, and its launches are once the context has passed over_tick: some
 * blocks that wait for it go on. True: others are left. */
bool pl_capture_release(pl_space *space, pl_capture *capture, uint64_t over_tick);

/* Release captures whose graphs are gone, as the driver says. Looks at some captures; the next call
 * goes on with the others. True: something was released. */
bool pl_capture_look(pl_space *space);
/* The same for all captures, dropping the lock in between. Bounded, as other threads may go on
 * destroying graphs. */
void pl_capture_look_well(pl_space *space);
/* The captures linked to the pool have ended. Drops the lock. */
void pl_capture_end_of_pool(pl_space *space, const struct pl_private *pool);

#endif
