/* stats.c - resets peaks, and reads the counts of the vmm layer. See stats.h. */
#include "segments/base/stats.h"

#include "vmm/driver.h"

static void reset_group(pleat_stat group[PLEAT_N_SIZES])
{
    for (unsigned i = 0; i < PLEAT_N_SIZES; i++) {
        group[i].peak = group[i].current;
    }
}

void pl_stats_reset_peaks(pleat_stats *stats)
{
    reset_group(stats->allocation);
    reset_group(stats->segment);
    reset_group(stats->active);
    reset_group(stats->inactive_split);
    reset_group(stats->allocated_bytes);
    reset_group(stats->reserved_bytes);
    reset_group(stats->active_bytes);
    reset_group(stats->inactive_split_bytes);
    reset_group(stats->requested_bytes);
    stats->oversize_allocations.peak = stats->oversize_allocations.current;
    stats->oversize_segments.peak = stats->oversize_segments.current;
}

void pl_stats_read_device(pleat_stats *stats, const pl_device *dev)
{
    pl_device_counts counts = pl_device_counted(dev);
    stats->granule_bytes = pl_device_granule_bytes(dev);
#define READ(name) stats->name = counts.name;
    PL_DEVICE_COUNT_LIST(READ)
#undef READ
    const pl_driver *drv = pl_device_driver(dev);
    stats->n_driver_calls = 0;
    for (unsigned i = 0; i < PL_N_ENTRIES; i++) {
        stats->n_driver_calls += pl_driver_n_calls(drv, (pl_entry)i);
    }
    stats->driver_ns = pl_driver_call_ns(drv);
}
