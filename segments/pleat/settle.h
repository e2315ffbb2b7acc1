/* settle.h - when memory that was freed is quiet: what a passed tick covers is over.
 *
 * It is settled by and by, a bounded number of blocks in one hold of the lock. Frees that no tick
 * covers are looked for now and then, and a tick wished for (tick.h), or the context's (context.h).
 *
 * Every function here is called with the space's lock held and may drop it while it talks to the
 * driver; state seen before the call may be stale after it. */
#ifndef PLEAT_SEGMENTS_SETTLE_H
#define PLEAT_SEGMENTS_SETTLE_H

#include "segments/pleat/space.h"

enum { PL_SETTLE_SOME = 256 }; /* blocks settled in one hold */

/* Has the last use of a stale or free block passed? */
bool pl_settle_is_over(const pl_space *space, const pl_block *b);
/* Settle at most n blocks that are over, wherever they are among the lanes it looks at. Returns how
 * many. */
size_t pl_settle_some(pl_space *space, size_t n);
size_t pl_settle_lane(pl_space *space, pl_lane *lane, size_t n);
/* lane is a stream's second one, whose capture is over: at most n of its blocks are settled, or
 * pend on the first one from now on. Returns how many. */
size_t pl_settle_rest(pl_space *space, pl_lane *lane, size_t n);
/* All of it: looks at every lane, dropping the lock now and then. */
bool pl_settle_all(pl_space *space);
/* The same, with what graphs and released pools have left. Bounded, whatever others go on freeing.
 * */
void pl_settle_everything(pl_space *space);

/* Is anything freed on the lane covered by no tick, and not over? */
bool pl_settle_has_uncovered(const pl_space *space, const pl_lane *lane);
/* Nothing will cover what pends on the lane but a tick of the context. */
void pl_settle_leave_to_context(pl_space *space, pl_lane *lane);
/* Leave the wish for a tick where frees are covered by none, among the n lanes that nobody looked
 * at for longest, `user` apart. */
void pl_settle_want_ticks(pl_space *space, const pl_lane *user, size_t n);
/* Bytes were freed on the lane, in a call that named its stream: record a tick if it is time to, or
 * if there may be no later call. */
void pl_settle_freed(pl_space *space, pl_lane *lane, size_t bytes);

#endif
