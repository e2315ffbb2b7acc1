/* kept.h - what a sleep has kept: it can be read, and its host memory can stay for the next sleep.
 *
 *   asleep              the room's slumber has the keep
 *   awake, retained     room.retained is the slumber that was: its beds say where in the keep each
 *                       granule is, as it was when the room fell asleep
 *   the next sleep      takes the keep over: granules that were kept have their slots again, so
 *                       their bytes are at the same place of the host's memory; others get slots
 *                       that are left. If all of them do not fit, there is a new keep.
 *
 * A sleep that fails leaves what is retained in its place: callers may have its addresses. Once it
 * has been written to, its bytes are of no single moment, and nobody is told where they are any
 * more. Nor once a block has become live in the room since it woke: at an address that was kept
 * there may be another block now.
 *
 * room.retained is changed under the device lock, and its beds are the business of the one thread
 * between pl_still_begin and pl_still_end, as all beds are (sleep.h). */
#ifndef PLEAT_SEGMENTS_KEPT_H
#define PLEAT_SEGMENTS_KEPT_H

#include "segments/pleat/sleep/sleep.h"

/* The room has just been left by the slumber, in a wake: retain what it has kept, or drop it. May
 * drop the lock. */
void pl_kept_leave(pl_space *space, pl_room *room, pl_slumber *slumber);
/* The slumber, whose beds are made, takes over what is retained, if that is on the host and fits.
 * May drop the lock. */
void pl_kept_take(pl_space *space, pl_room *room, pl_slumber *slumber, bool is_on_host);
/* The room has not fallen asleep: the end of the slumber, but not of a keep that it took over. May
 * drop the lock. */
void pl_kept_return(pl_space *space, pl_room *room, pl_slumber *slumber);
/* Nothing is retained any more. */
void pl_kept_drop(pl_space *space, pl_room *room);

/* room_retain and room_kept of pl_allocator_ops. */
void pl_pleat_room_retain(pl_allocator *a, pl_private *room, bool is_retained);
pleat_status pl_pleat_room_kept(pl_allocator *a, pleat_devptr ptr, size_t bytes, void *to,
                                void **at);

#endif
