/* meter.h - what the driver's mapping calls take on this device, measured while the program runs.
 *
 * Moving averages, each over about the last eight calls of its kind. Before the first call they are
 * published figures of a current driver (vmm/sim/costs/driver580.cost). The simulator's calls take
 * what its cost file says; a real driver's are timed. Threads that update one at the same time may
 * lose an update, which an average forgives. */
#ifndef PLEAT_VMM_METER_H
#define PLEAT_VMM_METER_H

#include <stdatomic.h>

#include "vmm/device.h"

typedef enum pl_meter_kind {
    PL_METER_MAP,   /* ns per chunk, mapped and granted */
    PL_METER_UNMAP, /* ns per granule, as an unmap is not told how many chunks there are */
    PL_N_METERS
} pl_meter_kind;

typedef struct pl_meter {
    _Atomic uint64_t ns[PL_N_METERS]; /* atomic */
} pl_meter;

void pl_meter_init(pl_meter *meter);
/* A reading before the calls, and the end of n chunks or granules that they worked on. Calls that
 * failed are not noted. */
uint64_t pl_meter_begin(const pl_device *dev);
void pl_meter_end(pl_device *dev, pl_meter_kind kind, uint64_t begin_ns, size_t n);
uint64_t pl_meter_ns(const pl_device *dev, pl_meter_kind kind);

/* Time that has passed for the program, in ns: the clock's. On the simulator, whose kernels take
 * none, a stated time for each of the n_events allocations and frees stands for it. */
uint64_t pl_meter_elapsed_ns(const pl_device *dev, uint64_t n_events);

#endif
