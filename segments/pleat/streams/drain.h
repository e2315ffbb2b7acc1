/* drain.h - a released private pool ends when its graphs are over. Then the default pool gets the
 * areas.
 *
 * Guarded by the device lock; never calls the driver. */
#ifndef PLEAT_SEGMENTS_DRAIN_H
#define PLEAT_SEGMENTS_DRAIN_H

#include "segments/pleat/space/private.h"

/* The pool is released, and stays only until its graphs are over. */
void pl_private_begin_drain(pl_space *space, pl_private *pool);
/* Give the areas of a drained pool to the default pool, and open some of the waiting segments: a
 * bounded step. Returns whether anything changed. */
bool pl_private_drain(pl_space *space);
/* No graph uses the segment's free memory any more. pl_private_drain makes the memory loose. */
void pl_private_open_segment(pl_space *space, pl_segment *seg);

#endif
