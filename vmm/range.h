/* range.h - reserved spans of device address space, within a budget. */
#ifndef PLEAT_VMM_RANGE_H
#define PLEAT_VMM_RANGE_H

#include "vmm/device.h"

typedef struct pl_range {
    pleat_devptr base;
    size_t bytes;
} pl_range;

/** Reserve `want_bytes`. After each refusal try half as much, never less than `least_bytes`.
 *
 *  Units    bytes, both rounded up to granules; base is aligned to a granule.
 *  Returns  PLEAT_OK; ENOSPACE_VA (the budget or the driver refuses even the least); ESIZE (does
 *           not fit 64 bits); ENOVMM; EDRIVER.
 *  Failure  as before.
 *  Owner    the caller, until pl_range_release of this very pair.
 *  Threads  any.
 *  Blocks   on the driver, once per size that it refuses. */
pleat_status pl_range_reserve(pl_device *dev, size_t want_bytes, size_t least_bytes, pl_range *out);

/** Give back a range that holds no mapping.
 *
 *  Returns  PLEAT_OK; EDRIVER.
 *  Failure  still reserved and counted.
 *  Threads  any.
 *  Blocks   on the driver. */
pleat_status pl_range_release(pl_device *dev, pl_range range);

/* The range was reserved without pl_range_reserve: count it until pl_range_release. */
void pl_range_count(pl_device *dev, size_t bytes);

/** Tell how much of the budget is left, for a caller that reserves ahead of its needs.
 *
 *  Params   budget_bytes  [out] the whole budget, at least 1.
 *  Returns  bytes; others may reserve them meanwhile, or the driver may refuse them.
 *  Threads  any. */
uint64_t pl_range_left_bytes(const pl_device *dev, uint64_t *budget_bytes);

#endif
