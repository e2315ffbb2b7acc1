/* settle.h - freed memory becomes settled when a covering tick has passed.
 *
 * One hold of the lock settles a bounded number of blocks. Now and then some lanes are searched for
 * frees without a tick. Then a tick of the lane (tick.h) or the context (context.h) is wished for.
 *
 * Every function of this file is called with the space's lock held, and may drop the lock for
 * driver calls. State seen before the call may be stale after the call. */
#ifndef PLEAT_SEGMENTS_SETTLE_H
#define PLEAT_SEGMENTS_SETTLE_H

#include "segments/pleat/space/space.h"

/* Has the last use of a stale or free block passed? */
bool pl_settle_is_over(const pl_space *space, const pl_block *b);
/* Settle blocks that are over on some lanes, as many as a hold may. Returns how many. */
size_t pl_settle_some(pl_space *space);
/* As pl_settle_some, for one lane. */
size_t pl_settle_lane(pl_space *space, pl_lane *lane);
/* `lane` is a second lane, and its capture is over. Settle blocks of the lane, or move them to the
 * stream's first lane, until the hold is tired. Returns how many. */
size_t pl_settle_rest(pl_space *space, pl_lane *lane, uint64_t since);
/* Settle all blocks that are over on any lane; drops the lock at intervals. Returns whether any
 * was. */
bool pl_settle_all(pl_space *space);
/* As pl_settle_all, and let go of the memory of gone graphs and released pools. Bounded, even if
 * other threads go on freeing. */
void pl_settle_everything(pl_space *space);

/* Is anything freed on the lane covered by no tick, and not over? */
bool pl_settle_has_uncovered(const pl_space *space, const pl_lane *lane);
/* Only a tick of the context can still cover the lane's pending memory: ask for one. */
void pl_settle_leave_to_context(pl_space *space, pl_lane *lane);
/* Look at some busy lanes, least recently seen first. Leave a wish for a tick if none covers the
 * frees, except on `user`. For streams that stay, some ticks are recorded now. */
void pl_settle_want_ticks(pl_space *space, const pl_lane *user);
/* As pl_settle_want_ticks, for at most n lanes, if a tick is worth its driver calls. Returns
 * whether a tick was recorded. */
bool pl_settle_want_worthy_ticks(pl_space *space, const pl_lane *user, size_t n);
void pl_settle_counted(pl_space *space, pl_lane *lane, size_t bytes);
void pl_settle_unnamed(pl_space *space, pl_lane *lane, size_t bytes);
/* Bytes were freed on the lane. is_named: the call named the lane's stream, or the stream stays.
 * Then record a tick if one is due, or if there may be no later call; else wish for a due tick,
 * without asking the driver. An only lane needs no tick once the lane is no longer young. True: the
 * lock may have been dropped. */
static inline bool pl_settle_freed(pl_space *space, pl_lane *lane, size_t bytes, bool is_named)
{
    if (!is_named) {
        pl_settle_unnamed(space, lane, bytes);
        return false;
    }
    lane->n_frees++;
    lane->free_call = space->n_calls;
    lane->unticked_bytes += bytes;
    if (pl_space_has_many_lanes(space) || lane->life != PL_LANE_HEARD ||
        lane->n_lifetime < PL_LANE_YOUNG) {
        pl_settle_counted(space, lane, bytes);
        return true;
    }
    return false;
}

#endif
