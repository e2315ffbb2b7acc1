/* capture_end.h - what ends a capture, and then lets go what was kept for its graph.
 *
 * First nothing more is captured: so a stream is seen, or the graph is gone. The graph is gone when
 * the driver says so, or its owner. What others may ask for is in capture.h; here is what a capture
 * does to itself. */
#ifndef PLEAT_SEGMENTS_CAPTURE_END_H
#define PLEAT_SEGMENTS_CAPTURE_END_H

#include "segments/pleat/capture.h"

/* It is under way no more, as far as is known. What waits for it does not go on yet. */
void pl_capture_end(pl_space *space, pl_capture *capture);
/* Its end lets go on what waited for no more than that; of a broken one nothing else will come. */
void pl_capture_see_end(pl_space *space, pl_capture *capture);
/* It is released, or no more: it does not count as disowned any longer. */
void pl_capture_own_up(pl_space *space, pl_capture *capture);

#endif
