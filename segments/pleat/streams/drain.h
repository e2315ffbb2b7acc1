/* drain.h - what keepers let go. A released private pool ends when its graphs are over; then the
 * default pool gets the areas.
 *
 * Guarded by the device lock; never calls the driver. */
#ifndef PLEAT_SEGMENTS_DRAIN_H
#define PLEAT_SEGMENTS_DRAIN_H

#include "segments/pleat/space/space.h"

struct pl_private;

/* The pool is released, and stays only until its graphs are over. */
void pl_drain_begin(pl_space *space, struct pl_private *pool);
/* Give the areas of a drained pool to the default pool, and open some of the waiting segments: a
 * bounded step. Returns whether anything changed. */
bool pl_drain_some(pl_space *space);
/* No graph uses the segment's free memory any more. pl_drain_some makes the memory loose. */
void pl_drain_open(pl_space *space, pl_segment *seg);

#endif
