/* run.h - which runs of free blocks each stream may use, and their indexes.
 *
 * A run of a lane is a longest sequence of neighbouring free blocks that are settled or pend on
 * that lane. Settled neighbours are merged, so a settled block is a run by itself: it is in its
 * area's index 0 with its own size. The first block of a run that pends on the lane leads it: it is
 * in the area's index of that lane with the size of the whole run. Blocks that pend on different
 * streams, or settled and pending ones, are never merged: that would make finished memory look
 * busy. */
#ifndef PLEAT_SEGMENTS_RUN_H
#define PLEAT_SEGMENTS_RUN_H

#include "segments/space.h"

static inline bool pl_run_may_use(const pl_block *b, uint32_t lane)
{
    return b->state == PL_BLOCK_FREE && (b->lane == PL_LANE_SETTLED || b->lane == lane);
}

/* Take b out of its index if it is in one. Call before its state, lane or size changes. */
void pl_run_drop(pl_block *b);
/* b is free and new, or changed, or one of its neighbours did: bring the indexes up to date for
 * every run it belongs to. */
void pl_run_refresh(pl_block *b);
/* The first block of the run that the indexed block leads. */
pl_block *pl_run_first(pl_block *leader);
/* The best fit for `lane` in `area`: the first block of the smallest run of at least `bytes`, or
 * NULL. *run_bytes is its size. */
pl_block *pl_run_best(const pl_area *area, uint32_t lane, size_t bytes, size_t *run_bytes);

/* Make b, which is in no index and no queue, a free block of `lane` and `tick`: queues it, merges
 * it with its neighbours where they are alike, brings indexes and loose granules up to date (in a
 * private pool, where memory stays the pool's, granules do not become loose). Returns the block
 * that it is part of now. */
pl_block *pl_run_free(pl_space *space, pl_block *b, uint32_t lane, uint64_t tick);
/* b, free, larger than `bytes` and the first of a run, keeps its first bytes as a live block; the
 * rest stays free in its stead, and the runs beside it are refreshed. Needs one spare block. */
void pl_run_cut(pl_space *space, pl_block *b, size_t bytes);
/* Take a free block out of indexes and queues, to become something else; the runs beside it are
 * refreshed by pl_run_refresh_beside once it has. */
void pl_run_claim(pl_space *space, pl_block *b);
void pl_run_refresh_beside(pl_block *first, pl_block *last);
/* Give a free block another lane and tick (settling, ordering). Returns what it is part of now. */
pl_block *pl_run_move(pl_space *space, pl_block *b, uint32_t lane, uint64_t tick);
/* The segment becomes a private pool's, or the default one's again: what is free in it is queued
 * accordingly. */
void pl_run_set_private(pl_space *space, pl_segment *seg, bool is_private);
/* Every free block of the segment is indexed as it should be: 0, or 1. */
int pl_run_check(const pl_segment *seg);

#endif
