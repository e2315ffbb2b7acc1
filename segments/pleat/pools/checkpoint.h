/* checkpoint.h - the live blocks of a private pool, remembered: and how a pool is walked.
 *
 * A roster of a pool refers to the lanes of its blocks, so that blocks can get their owners back.
 * The lanes and their streams' objects stay as long as the roster. From its first
 * checkpoint on a pool keeps the memory of blocks that end (private.h), so the roster holds none.
 *
 * A block that a restore is about to free is claimed (is_claimed). The block is live
 * for all walkers, but a call that names the block waits until the restore is over. */
#ifndef PLEAT_SEGMENTS_CHECKPOINT_H
#define PLEAT_SEGMENTS_CHECKPOINT_H

#include "segments/base/roster.h"
#include "segments/pleat/space/private.h"

/* The position of a walk over the blocks of a pool. The pool and its segments are held. */
typedef struct pl_pool_walk {
    pl_space *space;
    const pl_private *pool;
    pl_segment *seg;    /* NULL = to be found */
    pl_block *block;    /* covers `at`; NULL = to be found, from `anchor` if set */
    pl_block *anchor;   /* not free, and below `at`; NULL = none, or the lock was dropped */
    bool is_near_start; /* no anchor, as only a few free blocks lie below */
    unsigned n_steps;   /* from the anchor to the block, about */
    pleat_devptr at;    /* everything below is done */
    uint64_t since;     /* n_pieces at the start of this hold */
} pl_pool_walk;

void pl_pool_walk_begin(pl_pool_walk *walk, pl_space *space, const pl_private *pool);
/* The block that covers `at`, or else the first block above, with `at` set to its base. NULL at the
 * end. */
pl_block *pl_pool_walk_block(pl_pool_walk *walk);
/* Go on to `at`. `block` covers or begins at the address `at`, or is NULL, and the walk finds the
 * block. May drop the lock. */
void pl_pool_walk_on(pl_pool_walk *walk, pleat_devptr at, pl_block *block);

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
