/* carve.h - cut a block in flight out of a free block or a hole, or put the block back.
 *
 * A block in state FLIGHT is in no index and no queue, and nobody else touches the block. So the
 * lock may be dropped around driver calls. `was` is the state that a block put back returns to.
 * Guarded by the space's lock; never calls the driver. */
#ifndef PLEAT_SEGMENTS_CARVE_H
#define PLEAT_SEGMENTS_CARVE_H

#include "segments/pleat/space/space.h"

/* Cut [base, end) out of b, free or a hole, into a block in state FLIGHT. Its loose granules become
 * pinned; the caller keeps the peak. Needs two spares. */
pl_block *pl_carve_out(pl_space *space, pl_block *b, pleat_devptr base, pleat_devptr end);
/* The same for a free block whose chunks are to go: all granules that the block touches are loose,
 * or were loose before a neighbour was taken. No counter has these granules meanwhile. */
pl_block *pl_carve_take(pl_space *space, pl_block *b, pleat_devptr base, pleat_devptr end);
/* The same for [base, end) of free blocks side by side; b covers base. The blocks become a single
 * block, with the lane and tick of the first. Needs two spares. */
pl_block *pl_carve_out_all(pl_space *space, pl_block *b, pleat_devptr base, pleat_devptr end);
/* All work on b, in flight, is over. b keeps no lane, as the lane may go meanwhile. */
static inline void pl_carve_settle(pl_block *b)
{
    b->lane = PL_LANE_SETTLED;
    b->tick = 0;
}
/* Undo pl_carve_take. In a private pool, or a room, b is whole granules. */
void pl_carve_restore(pl_space *space, pl_block *b);
/* Put b, which is in no queue, back. Granules that become loose were pinned. */
void pl_carve_put_back(pl_space *space, pl_block *b);
/* Make b, whole granules in no queue and not resident any more, a hole. */
void pl_carve_make_hole(pl_space *space, pl_block *b);

#endif
