/* due.h - when to record a tick of a lane (tick.h).
 *
 * A tick costs up to seven calls of the driver. Memory without a tick serves no other stream. So
 * the frees and uses on a lane since its last tick decide. docs/design.md, chapter 6, has the
 * rules. Guarded by the device lock; never calls the driver. */
#ifndef PLEAT_SEGMENTS_DUE_H
#define PLEAT_SEGMENTS_DUE_H

#include "segments/pleat/space/space.h"

enum { PL_FREES_PER_TICK = 32, PL_FREES_PER_LOOK = 8 };

static inline bool pl_due_is_legacy(const pl_lane *lane)
{
    return lane->stream != NULL && pl_stream_is_legacy(lane->stream);
}

/* May any call give the handle of the lane's stream to the driver? The legacy stream is never
 * destroyed. A stream that the program promised to keep lives until retired. Retiring waits for a
 * tick under way (lanes.c). */
static inline bool pl_due_stays(const pl_lane *lane)
{
    return lane->stream != NULL && !lane->is_gone &&
           (pl_due_is_legacy(lane) || pl_stream_is_told(lane->stream));
}

/* A freed block of `bytes`, used by the lane's stream besides the owner, waits for a tick of the
 * lane. If a tick is due, wish for one. */
void pl_due_used(pl_space *space, pl_lane *lane, size_t bytes);

/* The lane has just freed `bytes`: is a tick due? */
bool pl_due_is_time(const pl_space *space, const pl_lane *lane, size_t bytes);
/* The call of another stream looks at the lane: is a tick worth a wish? */
bool pl_due_is_worth(const pl_space *space, const pl_lane *lane);

#endif
