/* range.h - reserved spans of device address space, within a budget. */
#ifndef PLEAT_VMM_RANGE_H
#define PLEAT_VMM_RANGE_H

#include "vmm/device.h"

typedef struct pl_range {
    pleat_devptr base;
    size_t bytes;
} pl_range;

/* Reserve `want_bytes`, or after a refusal half of it and so on, never less than `least_bytes`
 * (both rounded up to granules; base is aligned to a granule). Within the device's address budget.
 * Returns PLEAT_OK; ENOSPACE_VA; EDRIVER. Blocks on the driver. */
pleat_status pl_range_reserve(pl_device *dev, size_t want_bytes, size_t least_bytes, pl_range *out);
/* The range must hold no mapping. */
pleat_status pl_range_release(pl_device *dev, pl_range range);

#endif
