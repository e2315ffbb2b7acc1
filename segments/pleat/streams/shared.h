/* shared.h - freed blocks that wait for more than their owner.
 *
 * When a block with uses (uses.h) is freed, each use becomes a demand: a lane, or the context, must
 * pass a stamp; if the use is by a capture, its graph must be gone first. The block waits for one
 * demand at a time, the last in its list, in the queue of that lane, of the context or of that
 * capture. So a tick that passes costs a step for each block that waited for it, and the block's
 * other demands are not looked at.
 *
 * Where there are many uses, those by captures become demands only when the block comes to wait for
 * them. The use names its capture, and the stamp can be made late: it is at most the clock at the
 * free, since no lane had a later stamp then. In one hold only some demands are passed; then the
 * block is parked: it goes to the front of the context's queue, with a demand that is met.
 *
 * Guarded by the device lock; no function drops it. */
#ifndef PLEAT_SEGMENTS_SHARED_H
#define PLEAT_SEGMENTS_SHARED_H

#include "segments/pleat/space/space.h"

/* Free b, which has uses and is not in the live map any more. `in`: the capture that the free is
 * in, or NULL. */
void pl_shared_free(pl_space *space, pl_block *b, const struct pl_capture *in);

/* Has the lane, or the context, passed the stamp that the use demands? Ignores captures. */
bool pl_shared_is_met(const pl_space *space, const pl_block_use *use);
/* Take b out of the queue where it waits. The caller makes it something else. */
void pl_shared_leave_line(pl_space *space, pl_block *b);

/* b left the line for a flight, and lands: it goes on with its demands. */
void pl_shared_resume(pl_space *space, pl_block *b);

/* At most n blocks whose demand on the lane is met go on to their next demand. Returns how many. */
size_t pl_shared_pass(pl_space *space, pl_lane *lane, size_t n);
/* The same for demands on the context. */
size_t pl_shared_pass_context(pl_space *space, size_t n);
/* The same for blocks that waited for the capture, which is over. */
size_t pl_shared_pass_capture(pl_space *space, struct pl_capture *capture, size_t n);
/* Is the demand of the first block in the lane's queue met? */
bool pl_shared_is_first_over(const pl_space *space, const pl_lane *lane);
/* Does a block wait for a stamp of the lane that no tick covers? */
bool pl_shared_is_uncovered(const pl_space *space, const pl_lane *lane);

#endif
