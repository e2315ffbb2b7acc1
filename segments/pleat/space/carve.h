/* carve.h - cutting a block in flight out of a free block or a hole, and putting it back.
 *
 * A block in state FLIGHT is in no index and no queue, and nobody else touches it: so the lock may
 * be dropped around driver calls. `was` is the state it returns to when it is put back. Guarded by
 * the space's lock; never calls the driver. */
#ifndef PLEAT_SEGMENTS_CARVE_H
#define PLEAT_SEGMENTS_CARVE_H

#include "segments/pleat/space/space.h"

/* Cut [base, end) out of b, free or a hole, into a block in state FLIGHT. Its loose granules become
 * pinned; the peak is the caller's matter. Needs two spares. */
pl_block *pl_carve_out(pl_space *space, pl_block *b, pleat_devptr base, pleat_devptr end);
/* The same of a free block, for chunks that are to go: all granules that it touches are loose,
 * or were before another of their blocks was taken. They are in no counter meanwhile. */
pl_block *pl_carve_take(pl_space *space, pl_block *b, pleat_devptr base, pleat_devptr end);
/* The same for [base, end) of free blocks side by side; b covers base. They become one block, with
 * the lane and tick of the first. Needs two spares. */
pl_block *pl_carve_out_all(pl_space *space, pl_block *b, pleat_devptr base, pleat_devptr end);
/* All work on b, which is in flight, is over: it keeps no lane, as its lane may go meanwhile. */
static inline void pl_carve_settle(pl_block *b)
{
    b->lane = PL_LANE_SETTLED;
    b->tick = 0;
}
/* Undo pl_carve_take. In a private pool, or a room, b is whole granules. */
void pl_carve_restore(pl_space *space, pl_block *b);
/* Put b, which is in no queue, back: what becomes loose was pinned. */
void pl_carve_put_back(pl_space *space, pl_block *b);
/* Make b, whole granules in no queue and not resident any more, a hole. */
void pl_carve_make_hole(pl_space *space, pl_block *b);

#endif
