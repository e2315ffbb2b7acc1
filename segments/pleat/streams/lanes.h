/* lanes.h - streams' lanes come and go.
 *
 * The first call that names a stream makes its lane. When the stream is gone, no further tick of
 * the lane will cover pending memory. A lane without references is given up.
 *
 * Every function of this file is called with the space's lock held. */
#ifndef PLEAT_SEGMENTS_LANES_H
#define PLEAT_SEGMENTS_LANES_H

#include "segments/pleat/space/space.h"

pleat_status pl_lanes_add(pl_space *space, pl_stream *stream, bool is_capture, pl_lane **out);

/* The lane of a stream; made if new. PLEAT_OK or ENOMEM_HOST. */
static inline pleat_status pl_lanes_of(pl_space *space, pl_stream *stream, bool is_capture,
                                       pl_lane **out)
{
    *out = pl_space_lane_of(space, stream, is_capture);
    return __builtin_expect(*out != NULL, true) ? PLEAT_OK
                                                : pl_lanes_add(space, stream, is_capture, out);
}

/* Look at n lanes. Mark lanes of gone streams, and give such a lane and its stream up if nothing
 * refers to the lane. In a crowd, also give up lanes of living streams that nothing refers to. */
void pl_lanes_look_for_gone(pl_space *space, unsigned n);
/* The lane's stream is gone, so no more ticks will be recorded. */
void pl_lanes_lose(pl_space *space, pl_lane *lane);
/* The owner is about to destroy the stream: record a last tick behind all its work. Drops the
 * lock. */
void pl_lanes_retire(pl_space *space, pl_lane *lane);

#endif
