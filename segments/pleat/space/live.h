/* live.h - counts live blocks: by granule, and in the statistics.
 *
 * Between its first and its last granule, a block shares granules with nobody. So pl_segment.users
 * counts in the first and the last granule only. */
#ifndef PLEAT_SEGMENTS_LIVE_H
#define PLEAT_SEGMENTS_LIVE_H

#include "segments/pleat/space/segment.h"
#include "vmm/base/pleat_types.h"

/* ---- by granule ------------------------------------------------------------------------------ */

/* The granule's first live block has come, or its last live block is going. (segment.c) */
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

/* A block that begins in granule `first` and ends in `last` becomes live, or stops being live. */
static inline void pl_live_begin_between(pl_segment *seg, pl_tally *tally, size_t first,
                                         size_t last)
{
    pl_live_begin_in(tally, &seg->users[first]);
    if (last > first) {
        pl_live_begin_in(tally, &seg->users[last]);
        tally->n_live_granules += last - first - 1;
    }
}

static inline void pl_live_end_between(pl_segment *seg, pl_tally *tally, size_t first, size_t last)
{
    pl_live_end_in(tally, &seg->users[first]);
    if (last > first) {
        pl_live_end_in(tally, &seg->users[last]);
        tally->n_live_granules -= last - first - 1;
    }
}

/* A free block becomes live, or a live one free. The tally has no number and bytes of live blocks,
 * since the statistics have. */
static inline void pl_turn_live(pl_segment *seg, pl_tally *tally, pl_block *b, size_t first,
                                size_t last)
{
    tally->n_blocks[PL_BLOCK_FREE]--;
    tally->bytes[PL_BLOCK_FREE] -= b->bytes;
    b->state = PL_BLOCK_LIVE;
    pl_live_begin_between(seg, tally, first, last);
}

static inline void pl_turn_free(pl_segment *seg, pl_tally *tally, pl_block *b, size_t first,
                                size_t last)
{
    pl_live_end_between(seg, tally, first, last);
    b->state = PL_BLOCK_FREE;
    tally->n_blocks[PL_BLOCK_FREE]++;
    tally->bytes[PL_BLOCK_FREE] += b->bytes;
}

static inline void pl_live_begin(pl_segment *seg, pl_tally *tally, const pl_block *b)
{
    pl_live_begin_between(seg, tally, pl_segment_granule(seg, b->base),
                          pl_segment_granule(seg, pl_block_end(b) - 1));
}

static inline void pl_live_end(pl_segment *seg, pl_tally *tally, const pl_block *b)
{
    pl_live_end_between(seg, tally, pl_segment_granule(seg, b->base),
                        pl_segment_granule(seg, pl_block_end(b) - 1));
}

/* ---- in the statistics ----------------------------------------------------------------------- */

/* A figure of the live blocks of a size pool. */
typedef struct pl_usage {
    uint64_t current;
    uint64_t peak;
    uint64_t freed; /* of the small and the large pool; all = both */
} pl_usage;

typedef struct pl_usages {
    pl_usage n[PLEAT_N_SIZES];
    pl_usage bytes[PLEAT_N_SIZES];
    pl_usage requested[PLEAT_N_SIZES];
} pl_usages;

static inline void pl_usage_add(pl_usage *u, uint64_t n)
{
    u->current += n;
    u->peak = u->current > u->peak ? u->current : u->peak;
}

/* A block of the size pool becomes live. */
static inline void pl_usages_begin(pl_usages *u, unsigned pool, uint64_t bytes, uint64_t requested)
{
    pl_usage_add(&u->n[PLEAT_SIZES_ALL], 1);
    pl_usage_add(&u->n[pool], 1);
    pl_usage_add(&u->bytes[PLEAT_SIZES_ALL], bytes);
    pl_usage_add(&u->bytes[pool], bytes);
    pl_usage_add(&u->requested[PLEAT_SIZES_ALL], requested);
    pl_usage_add(&u->requested[pool], requested);
}

static inline void pl_usages_end(pl_usages *u, unsigned pool, uint64_t bytes, uint64_t requested)
{
    u->n[PLEAT_SIZES_ALL].current -= 1;
    u->n[pool].current -= 1;
    u->n[pool].freed += 1;
    u->bytes[PLEAT_SIZES_ALL].current -= bytes;
    u->bytes[pool].current -= bytes;
    u->bytes[pool].freed += bytes;
    u->requested[PLEAT_SIZES_ALL].current -= requested;
    u->requested[pool].current -= requested;
    u->requested[pool].freed += requested;
}

/* figures.c */
void pl_usages_read(const pl_usages *u, pleat_stats *out);
void pl_usages_reset_peaks(pl_usages *u);

#endif
