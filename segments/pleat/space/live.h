/* live.h - counts live blocks: by granule, and in the statistics.
 *
 * Between its first and its last granule, a block shares granules with nobody. So pl_segment.users
 * counts in the first and the last granule only. */
#ifndef PLEAT_SEGMENTS_LIVE_H
#define PLEAT_SEGMENTS_LIVE_H

#include "segments/base/fronts.h"
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

/* A figure of the live blocks of a size pool; current = peak - room. */
typedef struct pl_usage {
    uint64_t peak;
    int64_t room;   /* up to the peak; negative only while a peak is lifted */
    uint64_t freed; /* of the small and the large pool; all = both */
} pl_usage;

typedef struct pl_usages {
    pl_usage n[PLEAT_N_SIZES];
    pl_usage bytes[PLEAT_N_SIZES];
    pl_usage requested[PLEAT_N_SIZES];
} pl_usages;

/* Count a block as live, if that lifts no peak. False: nothing has changed. */
static inline bool pl_usages_begin_below_peak(pl_usages *u, unsigned pool, uint64_t bytes,
                                              uint64_t requested)
{
    int64_t n = (int64_t)bytes;
    int64_t r = (int64_t)requested;

    if (u->n[PLEAT_SIZES_ALL].room < 1 || u->n[pool].room < 1 ||
        u->bytes[PLEAT_SIZES_ALL].room < n || u->bytes[pool].room < n ||
        u->requested[PLEAT_SIZES_ALL].room < r || u->requested[pool].room < r) {
        return false;
    }
    u->n[PLEAT_SIZES_ALL].room -= 1;
    u->n[pool].room -= 1;
    u->bytes[PLEAT_SIZES_ALL].room -= n;
    u->bytes[pool].room -= n;
    u->requested[PLEAT_SIZES_ALL].room -= r;
    u->requested[pool].room -= r;
    return true;
}

static inline void pl_usages_end(pl_usages *u, unsigned pool, uint64_t bytes, uint64_t requested)
{
    u->n[PLEAT_SIZES_ALL].room += 1;
    u->n[pool].room += 1;
    u->n[pool].freed += 1;
    u->bytes[PLEAT_SIZES_ALL].room += (int64_t)bytes;
    u->bytes[pool].room += (int64_t)bytes;
    u->bytes[pool].freed += bytes;
    u->requested[PLEAT_SIZES_ALL].room += (int64_t)requested;
    u->requested[pool].room += (int64_t)requested;
    u->requested[pool].freed += requested;
}

/* The same, but the room goes to somebody else. */
static inline void pl_usages_count_freed(pl_usages *u, unsigned pool, uint64_t bytes,
                                         uint64_t requested)
{
    u->n[pool].freed += 1;
    u->bytes[pool].freed += bytes;
    u->requested[pool].freed += requested;
}

/* figures.c: the same as the first, and lifts peaks; figures of it; its peaks are now. */
void pl_usages_begin(pl_usages *u, unsigned pool, uint64_t bytes, uint64_t requested);
/* Room of the small pool, and of all, goes from a front to the pools; from them to a front, which
 * lifts peaks if they have less. */
void pl_usages_give_room(pl_usages *u, pl_front *front, int64_t n, int64_t bytes,
                         int64_t requested);
void pl_usages_take_room(pl_usages *u, pl_front *front, int64_t n, int64_t bytes,
                         int64_t requested);
void pl_usages_read(const pl_usages *u, pleat_stats *out);
void pl_usages_reset_peaks(pl_usages *u);

#endif
