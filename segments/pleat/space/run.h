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

/* Make b, which is in no index and no queue, a free block of `lane` and `tick`: queue b, merge b
 * with neighbours that are alike, bring indexes and loose granules up to date. Pointers to b and
 * its free neighbours may be stale afterwards. */
void pl_run_free(pl_space *space, pl_block *b, uint32_t lane, uint64_t tick);
/* Make the first `bytes` of b a live block. b is free, larger than `bytes`, and the first of a run.
 * The rest of b stays free, and the runs beside b are refreshed. Needs one spare block. */
void pl_run_cut(pl_space *space, pl_block *b, size_t bytes);
/* Take a free block out of indexes and queues. The caller changes the block's state, and then calls
 * pl_run_refresh_beside for the runs beside the block. */
void pl_run_claim(pl_space *space, pl_block *b);
void pl_run_refresh_beside(pl_space *space, pl_block *first, pl_block *last);
/* Give a free block another lane and tick (settling, ordering). Pointers to b and its free
 * neighbours may be stale afterwards. */
void pl_run_move(pl_space *space, pl_block *b, uint32_t lane, uint64_t tick);
/* b pends, and its segment has moved between the default pool and a private pool: put b into the
 * queue and index of its new pool. For a private pool, pl_area_reserve_index has made the index. */
void pl_run_requeue(pl_space *space, pl_block *b);
/* 0 if every free block of the segment is indexed as described above, else 1. */
int pl_run_check(const pl_segment *seg);

#endif
