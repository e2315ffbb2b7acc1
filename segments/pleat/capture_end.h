/* capture_end.h - what the end of a capture, or of its graph, lets go.
 *
 * First nothing more is captured: so a stream is seen, or the graph is gone. The graph is gone when
 * the driver says so, or its owner (capture_owner.h). Guarded by the device lock. */
#ifndef PLEAT_SEGMENTS_CAPTURE_END_H
#define PLEAT_SEGMENTS_CAPTURE_END_H

#include "segments/pleat/capture.h"

/* Its end lets go on what waited for no more than that; of a broken one nothing else will come. */
void pl_capture_see_end(pl_space *space, pl_capture *capture);
/* Its graph is gone, and its launches when the context has passed over_tick: what waits for it may
 * go on, some now. True: not all has yet. */
bool pl_capture_release(pl_space *space, pl_capture *capture, uint64_t over_tick);

/* Which graphs has the driver said to be gone? Some captures are looked at, the next ones the next
 * time. True: something was released. */
bool pl_capture_look(pl_space *space);
/* The same of all captures, letting the lock go in between, but not for ever: others may go on
 * destroying graphs. */
void pl_capture_look_well(pl_space *space);
/* The captures of the pool's requests have ended. Drops the lock. */
void pl_capture_end_of_pool(pl_space *space, const struct pl_private *pool);

#endif
