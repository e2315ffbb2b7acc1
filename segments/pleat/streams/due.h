/* due.h - when it is time for a tick of a lane (tick.h).
 *
 * A tick costs up to seven calls of the driver, and what no tick covers serves no other stream: so
 * one is due by what was freed, or used, on the lane since its last tick. docs/design.md, chapter
 * 6, has the rules. Guarded by the device lock; never calls the driver. */
#ifndef PLEAT_SEGMENTS_DUE_H
#define PLEAT_SEGMENTS_DUE_H

#include "segments/pleat/space/space.h"

enum { PL_FREES_PER_TICK = 32, PL_FREES_PER_LOOK = 8 };

static inline bool pl_due_is_legacy(const pl_lane *lane)
{
    return lane->stream != NULL && pl_stream_is_legacy(lane->stream);
}

/* May the handle of the lane's stream go to the driver in any call? The legacy stream is never
 * destroyed. A stream that the program promised to keep lives until it is retired, and that waits
 * for a tick under way (lanes.c). */
static inline bool pl_due_stays(const pl_lane *lane)
{
    return lane->stream != NULL && !lane->is_gone &&
           (pl_due_is_legacy(lane) || pl_stream_is_told(lane->stream));
}

/* A block of so many bytes, which the lane's stream used besides its owner's, was freed, and waits
 * for a tick of the lane. Wish for one if it is time to. */
void pl_due_used(pl_space *space, pl_lane *lane, size_t bytes);

/* Bytes were freed on the lane just now: is it time for a tick? */
bool pl_due_is_time(const pl_space *space, const pl_lane *lane, size_t bytes);
/* Another stream's call looks at the lane: is a tick of it worth asking for? */
bool pl_due_is_worth(const pl_space *space, const pl_lane *lane);

#endif
