/* stats.h - arithmetic on pleat_stat, PyTorch's counters.
 *
 * An increase adds to current and allocated and lifts the peak. A decrease takes from current and
 * adds to freed. A reset of the peak sets it to current. A group has three counters: for all pools,
 * for the small pool, for the large pool. The owner's lock guards the counters. Source:
 * c10/core/Allocator.h (Stat), c10/cuda/CUDACachingAllocator.cpp. */
#ifndef PLEAT_SEGMENTS_STATS_H
#define PLEAT_SEGMENTS_STATS_H

#include "vmm/base/assert.h"
#include "vmm/base/pleat_types.h"
#include "vmm/device.h"

static inline void pl_stat_add(pleat_stat *s, uint64_t n)
{
    s->current += n;
    s->allocated += n;
    if (s->current > s->peak) {
        s->peak = s->current;
    }
}

static inline void pl_stat_sub(pleat_stat *s, uint64_t n)
{
    pl_assert(s->current >= n);
    s->current -= n;
    s->freed += n;
}

/* Count `n` in PLEAT_SIZES_ALL and in `pool`, which is PLEAT_SIZES_SMALL or PLEAT_SIZES_LARGE. */
static inline void pl_stats_add(pleat_stat group[PLEAT_N_SIZES], unsigned pool, uint64_t n)
{
    pl_stat_add(&group[PLEAT_SIZES_ALL], n);
    pl_stat_add(&group[pool], n);
}

static inline void pl_stats_sub(pleat_stat group[PLEAT_N_SIZES], unsigned pool, uint64_t n)
{
    pl_stat_sub(&group[PLEAT_SIZES_ALL], n);
    pl_stat_sub(&group[pool], n);
}

/* PyTorch's pool for a block's rounded size: small up to 1 MiB. */
static inline unsigned pl_stats_pool(size_t rounded_bytes)
{
    return rounded_bytes <= (size_t)1 << 20 ? PLEAT_SIZES_SMALL : PLEAT_SIZES_LARGE;
}

/* Resets every pleat_stat of `stats`. */
void pl_stats_reset_peaks(pleat_stats *stats);

/* Read the granule size and the vmm layer's counters: PL_DEVICE_COUNT_LIST, driver calls and their
 * time. */
void pl_stats_read_device(pleat_stats *stats, const pl_device *dev);

#endif
