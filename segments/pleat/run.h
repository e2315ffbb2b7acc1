/* run.h - which runs of free blocks each stream may use, and their indexes.
 *
 * A run of a lane is a longest sequence of neighbouring free blocks that are settled or pend on
 * that lane. Settled neighbours are merged, so a settled block is a run by itself: it is in its
 * area's index 0 with its own size. The first block of a run that pends on the lane leads it: it is
 * in the lane's index with the size of the whole run. Blocks that pend on different streams, or
 * settled and pending ones, are not merged: that would make finished memory look busy.
 *
 * But a run of more than PL_RUN_PIECES blocks is shortened to half of that, where it makes the
 * fewest bytes look busier than they are: else each change would walk, and each use touch, as many
 * pieces as a program happens to free. */
#ifndef PLEAT_SEGMENTS_RUN_H
#define PLEAT_SEGMENTS_RUN_H

#include "segments/pleat/space.h"

enum { PL_RUN_PIECES = 32 };

static inline bool pl_run_may_use(const pl_block *b, uint32_t lane)
{
    return b->state == PL_BLOCK_FREE && (b->lane == PL_LANE_SETTLED || b->lane == lane);
}

/* Take b out of its index if it is in one. Call before its state, lane or size changes. */
void pl_run_drop(pl_space *space, pl_block *b);
/* b is free and new, or changed, or one of its neighbours did: bring the indexes up to date for
 * every run it belongs to. */
void pl_run_refresh(pl_space *space, pl_block *b);
/* The first block of the run that the indexed block leads. */
pl_block *pl_run_first(pl_block *leader);
/* The best fit for `lane` (0 = what is settled only) among what is settled in `area` and what pends
 * on the lane in the area's pool and class: the first block of the smallest run of at least
 * `bytes`, or NULL. *run_bytes is its size. In a private pool pending blocks count only if they lie
 * in the area. */
pl_block *pl_run_best(const pl_space *space, const pl_area *area, uint32_t lane, size_t bytes,
                      size_t *run_bytes);
/* Does anything pend on the lane where pl_run_best looks for it? */
bool pl_run_has_pending(const pl_space *space, const pl_area *area, uint32_t lane);

/* Make b, which is in no index and no queue, a free block of `lane` and `tick`: queues it, merges
 * it with its neighbours where they are alike, brings indexes and loose granules up to date (in a
 * private pool, where memory stays the pool's, granules do not become loose). b and its free
 * neighbours may be others afterwards. */
void pl_run_free(pl_space *space, pl_block *b, uint32_t lane, uint64_t tick);
/* b, free, larger than `bytes` and the first of a run, keeps its first bytes as a live block; the
 * rest stays free in its stead, and the runs beside it are refreshed. Needs one spare block. */
void pl_run_cut(pl_space *space, pl_block *b, size_t bytes);
/* Take a free block out of indexes and queues, to become something else; the runs beside it are
 * refreshed by pl_run_refresh_beside once it has. */
void pl_run_claim(pl_space *space, pl_block *b);
void pl_run_refresh_beside(pl_space *space, pl_block *first, pl_block *last);
/* Give a free block another lane and tick (settling, ordering). b and its free neighbours may be
 * others afterwards. */
void pl_run_move(pl_space *space, pl_block *b, uint32_t lane, uint64_t tick);
/* b pends, and its segment has become a private pool's, where pl_area_reserve_index has made room,
 * or the default one's: it is queued and indexed accordingly. */
void pl_run_requeue(pl_space *space, pl_block *b);
/* Every free block of the segment is indexed as it should be: 0, or 1. */
int pl_run_check(const pl_segment *seg);

#endif
