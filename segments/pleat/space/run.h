/* run.h - which runs of free blocks each stream may use, and their indexes.
 *
 * A run of a lane is a longest sequence of neighbouring free blocks that are settled or pend on the
 * lane. Settled neighbours are merged, so a settled block is a run by itself: the block is in its
 * area's index 0 with its own size. The first block of a run that pends on the lane leads the run:
 * this block is in the lane's index, with the size of the whole run. Blocks that pend on different
 * streams are not merged, nor settled and pending blocks: a merge would make finished memory look
 * busy.
 *
 * But a run of more than PL_RUN_PIECES blocks is shortened to half of PL_RUN_PIECES, by the merges
 * that make the fewest bytes look busier. Otherwise every change would walk as many pieces as a
 * program happens to free, and a request that takes the run would touch all pieces. */
#ifndef PLEAT_SEGMENTS_RUN_H
#define PLEAT_SEGMENTS_RUN_H

#include "segments/pleat/space/space.h"

enum { PL_RUN_PIECES = 32 };

static inline bool pl_run_may_use(const pl_block *b, uint32_t lane)
{
    return b->state == PL_BLOCK_FREE && (b->lane == PL_LANE_SETTLED || b->lane == lane);
}

/* Take b out of its index, if any. Call before b's state, lane or size changes. */
void pl_run_drop(pl_space *space, pl_block *b);
/* b is free, and b or a neighbour has changed: update the indexes for every run with b. */
void pl_run_refresh(pl_space *space, pl_block *b);
/* The first block of the run that the indexed block leads. */
pl_block *pl_run_first(pl_block *leader);
/* The best fit for `lane` (0 = settled blocks only) among the settled blocks of `area` and the runs
 * of the lane in the area's pool and class. Returns the first block of the smallest run of at least
 * `bytes`, or NULL; *run_bytes is the size of the run. In a private pool only runs in the area
 * itself count. */
pl_block *pl_run_best(const pl_space *space, const pl_area *area, uint32_t lane, size_t bytes,
                      size_t *run_bytes);
/* Does anything pend on the lane where pl_run_best looks? */
bool pl_run_has_pending(const pl_space *space, const pl_area *area, uint32_t lane);

/* Make b, which is in no index and no queue, a free block of `lane` and `stamp`: queue b, merge b
 * with neighbours that are alike, bring indexes and loose granules up to date. Pointers to b and
 * its free neighbours may be stale afterwards. */
void pl_run_free(pl_space *space, pl_block *b, uint32_t lane, uint64_t stamp);
/* Make the first `bytes` of b a live block. b is free, larger than `bytes`, and the first of a run.
 * The rest of b stays free, and the runs beside b are refreshed. Needs one spare block. */
void pl_run_cut(pl_space *space, pl_block *b, size_t bytes);
/* Take a free block out of indexes and queues. The caller changes the block's state, and then calls
 * pl_run_refresh_beside for the runs beside the block. */
void pl_run_claim(pl_space *space, pl_block *b);
void pl_run_refresh_beside(pl_space *space, pl_block *first, pl_block *last);
/* Give a free block another lane and stamp (settling, ordering). Pointers to b and its free
 * neighbours may be stale afterwards. */
void pl_run_move(pl_space *space, pl_block *b, uint32_t lane, uint64_t stamp);
/* b pends, and its segment has moved between the default pool and a private pool: put b into the
 * queue and index of its new pool. For a private pool, pl_area_reserve_index has made the index. */
void pl_run_requeue(pl_space *space, pl_block *b);
/* 0 if every free block of the segment is indexed as described above, else 1. */
int pl_run_check(const pl_segment *seg);

/* ---- carve.c: blocks in flight ----
 *
 * Cut a block in flight out of a free block or a hole, or put the block back.
 *
 * A block in state FLIGHT is in no index and no queue, and nobody else touches the block. So the
 * lock may be dropped around driver calls. `was` is the state that a block put back returns to.
 * Guarded by the space's lock; never calls the driver. */

/* Cut [base, end) out of b, free or a hole, into a block in state FLIGHT. Its loose granules become
 * pinned; the caller keeps the peak. Needs two spares. */
pl_block *pl_carve_out(pl_space *space, pl_block *b, pleat_devptr base, pleat_devptr end);
/* The same for a free block whose chunks are to go: all granules that the block touches are loose,
 * or were loose before a neighbour was taken. No counter has these granules meanwhile. */
pl_block *pl_carve_take(pl_space *space, pl_block *b, pleat_devptr base, pleat_devptr end);
/* The same for [base, end) of free blocks side by side; b covers base. The blocks become a single
 * block, with the lane and stamp of the first. Needs two spares. */
pl_block *pl_carve_out_all(pl_space *space, pl_block *b, pleat_devptr base, pleat_devptr end);
/* All work on b, in flight, is over. b keeps no lane, as the lane may go meanwhile. */
static inline void pl_carve_settle(pl_block *b)
{
    b->lane = PL_LANE_SETTLED;
    b->stamp = 0;
}
/* Undo pl_carve_take. In a private pool, or a heap, b is whole granules. */
void pl_carve_restore(pl_space *space, pl_block *b);
/* Put b, which is in no queue, back. Granules that become loose were pinned. */
void pl_carve_put_back(pl_space *space, pl_block *b);
/* Make b, whole granules in no queue and not resident any more, a hole. */
void pl_carve_make_hole(pl_space *space, pl_block *b);
/* The same, but the driver still maps b: make b stale, to be unmapped after its last use. The
 * chunks are elsewhere. */
void pl_carve_make_stale(pl_space *space, pl_block *b);
/* The driver has refused to unmap b, whose last use is over, at least in part: b is stale, and the
 * driver is asked again. No chunk is released meanwhile (pl_pile_release). */
void pl_carve_refuse(pl_space *space, pl_block *b);
/* Take b, which is stale, out of the queue. */
void pl_carve_unqueue_stale(pl_space *space, pl_block *b);
/* The memory of b is unmapped; is_torn: only in part. */
void pl_carve_lose(pl_space *space, pl_block *b, bool is_torn);

#endif
