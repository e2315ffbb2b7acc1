/* walk.h - a walk over the blocks of a keeper that now and then drops the lock.
 *
 * Long work looks at very many blocks, and must not keep other threads out meanwhile. So a walk
 * counts its steps (pl_pace), drops the lock when they are many, and finds its place again by its
 * address: blocks may have come, gone or merged. What lies below the address is done.
 *
 * The keeper and its segments are held: nothing of them goes during the walk. Guarded by the
 * space's lock. */
#ifndef PLEAT_SEGMENTS_WALK_H
#define PLEAT_SEGMENTS_WALK_H

#include "segments/pleat/space/space.h"

typedef enum pl_walk_order {
    PL_WALK_BY_ADDRESS, /* of segments: for lists that are ordered so. Buffers are left out */
    PL_WALK_AS_LISTED,  /* pl_keeper_next_segment: for very many segments. Buffers, too */
} pl_walk_order;

/* The position of a walk. */
typedef struct pl_walk {
    pl_space *space;
    const struct pl_keeper *keeper;
    pl_walk_order order;
    pl_segment *seg;    /* NULL = to be found */
    pl_block *block;    /* covers `at`; NULL = to be found, from `anchor` if set */
    pl_block *anchor;   /* not free, and below `at`; NULL = none, or the lock was dropped */
    bool is_near_start; /* no anchor, as only a few free blocks lie below */
    unsigned n_steps;   /* from the anchor to the block, about */
    pleat_devptr at;    /* everything below is done, in this segment and those before */
    pl_pace pace;
} pl_walk;

pl_walk pl_walk_of(pl_space *space, const struct pl_keeper *keeper, pl_walk_order order);
/* The block that covers `at`, or else the first block behind, with `at` set to its base. NULL at
 * the end. */
pl_block *pl_walk_block(pl_walk *walk);
/* Go on to `at`. `block` covers or begins at the address `at`, or is NULL, and the walk finds the
 * block. May drop the lock. */
void pl_walk_on(pl_walk *walk, pleat_devptr at, pl_block *block);
/* The caller has dropped the lock, or goes back to an `at` in this segment. */
void pl_walk_lose(pl_walk *walk);

#endif
