/* capture_end.h - which blocks go on when a capture ends, and when its graph is gone.
 *
 * First the capture ends, in one of several ways. A stream of the capture is seen elsewhere, the
 * streams or the graph are gone, the route of the pool ends, or the owner says so. Later the graph
 * is gone, as told by the driver or by the owner (owner_ops.c). Guarded by the device lock. */
#ifndef PLEAT_SEGMENTS_CAPTURE_END_H
#define PLEAT_SEGMENTS_CAPTURE_END_H

#include "segments/pleat/streams/capture.h"

/* The capture was seen to end. Some blocks go on, if the end was all that they waited for. A broken
 * capture has no graph, so is released as well. */
void pl_capture_see_end(pl_space *space, pl_capture *capture);
/* The capture's graph is gone, and its launches are over once the context has passed over_tick.
 * Some waiting blocks go on. True: blocks are left. */
bool pl_capture_release(pl_space *space, pl_capture *capture, uint64_t over_tick);

/* Release captures whose graphs are gone for the driver. Looks at some captures, and goes on with
 * the rest at the next call. True: something was released. */
bool pl_capture_look(pl_space *space);
/* As pl_capture_look, for all captures, dropping the lock in between. Bounded, as other threads may
 * go on destroying graphs. */
void pl_capture_look_well(pl_space *space);
/* The captures linked to the pool have ended. Drops the lock. */
void pl_capture_end_of_pool(pl_space *space, const struct pl_private *pool);

#endif
