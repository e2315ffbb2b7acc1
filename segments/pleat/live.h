/* live.h - counts live blocks: by granule, and in the statistics.
 *
 * Granules between a block's first and last one hold nothing else, so pl_segment.users counts in
 * these two only. */
#ifndef PLEAT_SEGMENTS_LIVE_H
#define PLEAT_SEGMENTS_LIVE_H

#include "segments/pleat/segment.h"
#include "vmm/base/pleat_types.h"

/* ---- by granule ------------------------------------------------------------------------------ */

/* The granule's first live block has come, or its last one is going. (segment.c) */
void pl_live_turn(pl_tally *tally, const pl_users *users, bool comes);

static inline void pl_live_begin_in(pl_tally *tally, pl_users *users)
{
    if (users->n_live++ == 0) {
        pl_live_turn(tally, users, true);
    }
}

static inline void pl_live_end_in(pl_tally *tally, pl_users *users)
{
    if (--users->n_live == 0) {
        pl_live_turn(tally, users, false);
    }
}

static inline void pl_live_begin(pl_segment *seg, pl_tally *tally, const pl_block *b)
{
    size_t first = pl_segment_granule(seg, b->base);
    size_t last = pl_segment_granule(seg, pl_block_end(b) - 1);

    pl_live_begin_in(tally, &seg->users[first]);
    if (last > first) {
        pl_live_begin_in(tally, &seg->users[last]);
        tally->n_live_granules += last - first - 1;
    }
}

static inline void pl_live_end(pl_segment *seg, pl_tally *tally, const pl_block *b)
{
    size_t first = pl_segment_granule(seg, b->base);
    size_t last = pl_segment_granule(seg, pl_block_end(b) - 1);

    pl_live_end_in(tally, &seg->users[first]);
    if (last > first) {
        pl_live_end_in(tally, &seg->users[last]);
        tally->n_live_granules -= last - first - 1;
    }
}

/* ---- in the statistics ----------------------------------------------------------------------- */

/* What can be derived is not counted, but completed when the statistics are read: `allocated`, and
 * what all pools freed. */
static inline void pl_live_stat_add(pleat_stat *s, uint64_t n)
{
    s->current += n;
    s->peak = s->current > s->peak ? s->current : s->peak;
}

static inline void pl_live_stats_add(pleat_stat group[PLEAT_N_POOLS], unsigned pool, uint64_t n)
{
    pl_live_stat_add(&group[PLEAT_POOL_ALL], n);
    pl_live_stat_add(&group[pool], n);
}

static inline void pl_live_stats_sub(pleat_stat group[PLEAT_N_POOLS], unsigned pool, uint64_t n)
{
    group[PLEAT_POOL_ALL].current -= n;
    group[pool].current -= n;
    group[pool].freed += n;
}

static inline void pl_live_stats_complete(pleat_stat group[PLEAT_N_POOLS])
{
    pleat_stat *all = &group[PLEAT_POOL_ALL];

    all->freed = 0;
    for (unsigned i = PLEAT_POOL_SMALL; i < PLEAT_N_POOLS; i++) {
        group[i].allocated = group[i].current + group[i].freed;
        all->freed += group[i].freed;
    }
    all->allocated = all->current + all->freed;
}

#endif
