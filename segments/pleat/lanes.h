/* lanes.h - streams' lanes come and go.
 *
 * A lane comes with the first call that names its stream, and is lost when the stream is: no tick
 * of its own will cover what pends on it. It goes when nothing refers to it any more.
 *
 * Every function here is called with the space's lock held. */
#ifndef PLEAT_SEGMENTS_LANES_H
#define PLEAT_SEGMENTS_LANES_H

#include "segments/pleat/space.h"

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

/* Look at a few lanes: which streams are gone, and which of these lanes nothing refers to any more.
 * Those are given up, and their streams; in a crowd of lanes also others that nothing refers to. */
void pl_lanes_look_for_gone(pl_space *space, unsigned n);
/* The stream is gone, the lane will see no more ticks. */
void pl_lanes_lose(pl_space *space, pl_lane *lane);
/* Its owner is about to destroy the stream: record a fence behind all that it did. Drops the lock.
 */
void pl_lanes_retire(pl_space *space, pl_lane *lane);

#endif
