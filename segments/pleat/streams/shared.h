/* shared.h - freed blocks that wait for other streams and captures besides their owner.
 *
 * When a block with uses is freed, each use becomes a demand: a lane, or the context, must
 * pass a stamp. If the use is by a capture, first the graph must be gone. The block waits for one
 * demand at a time, the last in its list: for the clock (clock.h) of the lane, the context or the
 * capture of the demand. So a tick that passes costs one step for each block that waits for it,
 * and for each of its demands that is met by then.
 *
 * If there are many uses, uses by captures become demands only when their turn comes. The use names
 * its capture, and the stamp can be made late. The stamp is at most the newest at the free, since
 * no lane had a later stamp then. One hold passes only some demands. Then the block is parked: it
 * waits for the context, first in the queue, with a demand that is met.
 *
 * Guarded by the device lock; no function drops the lock. */
#ifndef PLEAT_SEGMENTS_SHARED_H
#define PLEAT_SEGMENTS_SHARED_H

#include "segments/pleat/space/space.h"

/* Free b, which has uses and has left the live map. `in`: the capture around the free, or NULL. */
void pl_shared_free(pl_space *space, pl_block *b, const struct pl_capture *in);

/* Has the lane, or the context, passed the stamp that the use demands? Ignores captures. */
bool pl_shared_is_met(const pl_space *space, const pl_block_use *use);
/* Let b wait no more. The caller changes the state of b. */
void pl_shared_leave_line(pl_space *space, pl_block *b);

/* b, out of the line, waits for nobody any more, and is completed. Drops the uses and the hold on
 * the owner's lane. */
void pl_shared_end(pl_space *space, pl_block *b);
/* b is out of the line: pass its demands, the last first, until b has to wait for one. With none
 * left, b pends on its owner, or is settled. */
void pl_shared_go_on(pl_space *space, pl_block *b);

/* ---- uses of a live block ----
 *
 * Who uses a live block besides its owner: streams that the block was recorded for, and
 * captures that allocated, freed or recorded the block.
 *
 * A long-lived block may be recorded in very many captures. Only the newest uses are searched, as
 * most calls repeat a recent use. So, rarely, the list has a use by a capture twice. In a long list
 * the uses by captures come last.
 *
 * Guarded by the device lock; no function drops the lock. */

/* Note that the lane's stream uses the live block b. `capture`: the capture whose graph uses b, or
 * NULL. is_captured: see pl_block_use. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_uses_add(pl_space *space, pl_block *b, pl_lane *lane, struct pl_capture *capture,
                         bool is_captured);
/* Copy the uses of `from` to the live block `to`, which has none. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_uses_copy(pl_space *space, const pl_block *from, pl_block *to);
/* Drop the references of the use. The caller takes the use itself off its list. */
void pl_uses_drop(pl_space *space, const pl_block_use *use);
void pl_uses_drop_all(pl_space *space, pl_block *b);

/* The last use of a block with uses. */
static inline pl_block_use *pl_uses_last(const pl_block *b)
{
    return &b->uses->use[b->uses->n - 1];
}

#endif
