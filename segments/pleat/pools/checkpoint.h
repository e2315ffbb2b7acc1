/* checkpoint.h - the live blocks of a private pool, remembered: and how a pool is walked.
 *
 * A roster of a pool refers to its blocks' lanes, so that each block can get its owner back; so
 * these lanes and their streams' objects stay as long as the roster. A pool's memory is never
 * unmapped before the pool is released (private.h), so nothing has to be kept for it.
 *
 * A block that a restore is about to free is claimed (PL_BLOCK_CLAIM in kept_in): it is live for
 * all walkers, but who names it waits until the restore is over. */
#ifndef PLEAT_SEGMENTS_CHECKPOINT_H
#define PLEAT_SEGMENTS_CHECKPOINT_H

#include "segments/base/roster.h"
#include "segments/pleat/space/private.h"

/* Where a walk over the blocks of a pool is. The pool is held, and so are its segments. */
typedef struct pl_pool_walk {
    pl_space *space;
    const pl_private *pool;
    pl_segment *seg;  /* NULL = to be found */
    pl_block *block;  /* that covers `at`; NULL = to be found: from `anchor` on, if there is one */
    pl_block *anchor; /* not free, and below `at`; NULL = none, or others may have had the lock */
    bool is_near_start; /* there is none, as only a few free blocks lie below */
    unsigned n_steps;   /* from there to the block, about */
    pleat_devptr at;    /* everything below is done */
    uint64_t since;     /* n_pieces when this hold began */
} pl_pool_walk;

void pl_pool_walk_begin(pl_pool_walk *walk, pl_space *space, const pl_private *pool);
/* The block that covers `at`, or the first above; `at` becomes its base then. NULL at the end. */
pl_block *pl_pool_walk_block(pl_pool_walk *walk);
/* `at` is done; `block`, which covers it or begins there, may be NULL, and the walk then finds it.
 * May drop the lock. */
void pl_pool_walk_on(pl_pool_walk *walk, pleat_devptr at, pl_block *block);

/* The block is live and claimed. */
static inline bool pl_block_is_claimed(const pl_block *b)
{
    return b->kept_in == PL_BLOCK_CLAIM;
}

/* The live block at ptr once no restore is about to free it; NULL: none. May drop the lock. */
pl_block *pl_checkpoint_await(pl_space *space, pleat_devptr ptr);

/* Give a roster back. May drop the lock. */
void pl_roster_forget(pl_space *space, pl_roster *roster);

pleat_status pl_pleat_private_save(pl_allocator *a, pl_private *pool, pl_roster *out);
void pl_pleat_roster_drop(pl_allocator *a, pl_roster *roster);

#endif
