/* settle.h - freed memory becomes settled when a tick that covers it has passed.
 *
 * One hold of the lock settles a bounded number of blocks. Now and then some lanes are searched for
 * frees that no tick covers, and a tick of the lane (tick.h) or the context (context.h) is wished
 * for.
 *
 * Every function here is called with the space's lock held and may drop it while it talks to the
 * driver; state seen before the call may be stale after it. */
#ifndef PLEAT_SEGMENTS_SETTLE_H
#define PLEAT_SEGMENTS_SETTLE_H

#include "segments/pleat/space/space.h"

enum { PL_SETTLE_SOME = 256 }; /* blocks settled in one hold */

/* Has the last use of a stale or free block passed? */
bool pl_settle_is_over(const pl_space *space, const pl_block *b);
/* Settle at most n blocks that are over, on some lanes. Returns how many. */
size_t pl_settle_some(pl_space *space, size_t n);
/* The same for one lane. */
size_t pl_settle_lane(pl_space *space, pl_lane *lane, size_t n);
/* `lane` is a second lane whose capture is over: settle at most n of its blocks, or move them to
 * the stream's first lane. Returns how many. */
size_t pl_settle_rest(pl_space *space, pl_lane *lane, size_t n);
/* Settle what is over on all lanes; drops the lock at intervals. Returns whether anything was. */
bool pl_settle_all(pl_space *space);
/* The same, and let go of what graphs that are gone and released pools have left. Bounded, even if
 * other threads go on freeing. */
void pl_settle_everything(pl_space *space);

/* Is anything freed on the lane covered by no tick, and not over? */
bool pl_settle_has_uncovered(const pl_space *space, const pl_lane *lane);
/* Only a tick of the context can still cover what pends on the lane: ask for one. */
void pl_settle_leave_to_context(pl_space *space, pl_lane *lane);
/* Look at some busy lanes, those first whose last look is longest ago; except on `user`, leave a
 * wish for a tick where none covers the frees. Of streams that stay some ticks are recorded now. */
void pl_settle_want_ticks(pl_space *space, const pl_lane *user);
/* The same for at most n lanes, and only where a tick is worth its calls of the driver. Returns
 * whether a tick was recorded. */
bool pl_settle_want_worthy_ticks(pl_space *space, const pl_lane *user, size_t n);
void pl_settle_counted(pl_space *space, pl_lane *lane, size_t bytes);
/* Bytes were freed on the lane, in a call that named its stream: record a tick if it is time to, or
 * if there may be no later call. The only lane, once it is no longer young, needs none. True: the
 * lock may have been dropped. */
static inline bool pl_settle_freed(pl_space *space, pl_lane *lane, size_t bytes)
{
    lane->n_frees++;
    lane->free_event = space->n_events;
    lane->unticked_bytes += bytes;
    if (pl_space_has_many_lanes(space) || lane->wants_tick || lane->n_lifetime < PL_LANE_YOUNG) {
        pl_settle_counted(space, lane, bytes);
        return true;
    }
    return false;
}
/* The same in a call that did not name the stream: a tick that is due is wished for, and the driver
 * is not asked anything. */
void pl_settle_freed_unnamed(pl_space *space, pl_lane *lane, size_t bytes);

#endif
