/* shared.h - freed blocks that wait for more than their owner.
 *
 * When a block with uses (uses.h) is freed each use becomes a demand: a lane, or the context, must
 * pass a stamp; a capture's graph must be gone first. The block waits for one of them at a time,
 * the last in its list, in the queue of that lane, of the context or of that capture. So a tick
 * that passes costs a step for each block that waited for it, and nothing is asked about the
 * others.
 *
 * Where there are many uses, those of captures begin when the block comes to wait for them: the
 * capture is known anyhow, and no lane's stamp was later than the clock at the free (a tick that
 * was recorded before has a lower number). In one hold only some pass; then the block is parked,
 * first in the queue of the context, with a demand that is met.
 *
 * Guarded by the device lock; no function drops it. */
#ifndef PLEAT_SEGMENTS_SHARED_H
#define PLEAT_SEGMENTS_SHARED_H

#include "segments/pleat/space.h"

/* b has uses and is being freed; it is in nobody's live map any more. `in`: the capture that the
 * free is in, or NULL. */
void pl_shared_free(pl_space *space, pl_block *b, const struct pl_capture *in);

/* Has the lane, or the context, passed what the use demands? No capture is asked. */
bool pl_shared_is_met(const pl_space *space, const pl_block_use *use);
/* b waits for nothing any more, nor is it anything else yet. */
void pl_shared_leave_line(pl_space *space, pl_block *b);

/* The lane has passed something: at most n blocks go on to what they wait for next. How many did.
 * */
size_t pl_shared_pass(pl_space *space, pl_lane *lane, size_t n);
size_t pl_shared_pass_context(pl_space *space, size_t n);
/* The capture is over: the same of those that waited for it. */
size_t pl_shared_pass_capture(pl_space *space, struct pl_capture *capture, size_t n);
/* Has what the first block waits for there passed? */
bool pl_shared_is_first_over(const pl_space *space, const pl_lane *lane);
/* Does a block wait for a stamp of the lane that no tick covers? */
bool pl_shared_is_uncovered(const pl_space *space, const pl_lane *lane);

#endif
