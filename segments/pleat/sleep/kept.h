/* kept.h - contents kept by a sleep. Reads are possible, and the host memory can stay for the next
 * sleep.
 *
 *   asleep              the room's slumber has the keep
 *   awake, retained     room.retained is the slumber that was: its beds say where in the keep each
 *                       granule is, as it was when the room fell asleep
 *   the next sleep      takes the keep over: granules that were kept have their slots again, so
 *                       their bytes are at the same place of the host's memory; others get slots
 *                       that are left. If all of them do not fit, there is a new keep.
 *
 * A failed sleep leaves retained contents in place, since callers may have addresses in the keep.
 * After a write to the keep, the bytes are of no single moment, so no further caller gets
 * addresses. The same holds once a block has become live in the room since the wake: a new block
 * may lie at a kept address.
 *
 * room.retained changes under the device lock. Its beds belong to the one thread between
 * pl_still_begin and pl_still_end, like all beds (sleep.h). */
#ifndef PLEAT_SEGMENTS_KEPT_H
#define PLEAT_SEGMENTS_KEPT_H

#include "segments/pleat/sleep/sleep.h"

/* The slumber has just left the room, in a wake: retain the kept contents, or drop them. May drop
 * the lock. */
void pl_kept_leave(pl_space *space, pl_room *room, pl_slumber *slumber);
/* The slumber, with beds made, takes over the retained keep, if the keep is on the host and fits.
 * May drop the lock. */
void pl_kept_take(pl_space *space, pl_room *room, pl_slumber *slumber, bool is_on_host);
/* The room has not fallen asleep: end the slumber, but not a keep taken over. May drop the lock. */
void pl_kept_return(pl_space *space, pl_room *room, pl_slumber *slumber);
/* Nothing is retained any more. */
void pl_kept_drop(pl_space *space, pl_room *room);

#endif
