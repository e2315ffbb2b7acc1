/* lanes.h - streams' lanes come and go.
 *
 * The first call that names a stream makes its lane. When the stream is gone, no further tick of
 * the lane will cover what pends on it. The lane is given up when nothing refers to it any more.
 *
 * Every function here is called with the space's lock held. */
#ifndef PLEAT_SEGMENTS_LANES_H
#define PLEAT_SEGMENTS_LANES_H

#include "segments/pleat/space/space.h"

pleat_status pl_lanes_add(pl_space *space, pl_stream *stream, bool is_capture, pl_lane **out);

/* The lane of a stream; made if new. PLEAT_OK or ENOMEM_HOST. */
static inline pleat_status pl_lanes_of(pl_space *space, pl_stream *stream, bool is_capture,
                                       pl_lane **out)
{
    uint32_t i = pl_lane_number(stream, is_capture) - 1;

    if (__builtin_expect(i < space->n_lane_rooms && space->lanes[i] != NULL, true)) {
        *out = space->lanes[i];
        return PLEAT_OK;
    }
    return pl_lanes_add(space, stream, is_capture, out);
}

/* Look at n lanes: mark those whose stream is gone, and give them up, with their streams, if
 * nothing refers to them. In a crowd also give up other lanes that nothing refers to. */
void pl_lanes_look_for_gone(pl_space *space, unsigned n);
/* The lane's stream is gone: no more ticks will be recorded for it. */
void pl_lanes_lose(pl_space *space, pl_lane *lane);
/* The owner of the stream is about to destroy it: record a last tick behind all its work. Drops the
 * lock. */
void pl_lanes_retire(pl_space *space, pl_lane *lane);

#endif
