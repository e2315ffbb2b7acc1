/* checkpoint.h - the live blocks of a private pool, remembered.
 *
 * A roster of a pool refers to the lanes of its blocks, so that blocks can get their owners back.
 * The lanes and their streams' objects stay as long as the roster. From its first
 * checkpoint on a pool keeps the memory of blocks that end (keeper.h), so the roster holds none.
 *
 * A block that a restore is about to free is claimed (is_claimed). The block is live
 * for all walkers, but a call that names the block waits until the restore is over. */
#ifndef PLEAT_SEGMENTS_CHECKPOINT_H
#define PLEAT_SEGMENTS_CHECKPOINT_H

#include "segments/base/roster.h"
#include "segments/pleat/space/keeper.h"
#include "segments/pleat/space/walk.h"

/* The block is live and claimed. */
static inline bool pl_block_is_claimed(const pl_block *b)
{
    return b->is_claimed;
}

/* The live block at ptr, once no restore is about to free the block; NULL: none. May drop the
 * lock. */
pl_block *pl_checkpoint_await(pl_space *space, pleat_devptr ptr);

/* Give a roster back. May drop the lock. */
void pl_roster_forget(pl_space *space, pl_roster *roster);

#endif
