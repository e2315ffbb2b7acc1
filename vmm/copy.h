/* copy.h - copies inside a device's memory, for an allocator that moves blocks. */
#ifndef PLEAT_VMM_COPY_H
#define PLEAT_VMM_COPY_H

#include "vmm/device.h"

typedef struct pl_copy {
    pleat_devptr to;
    pleat_devptr from;
    size_t bytes;
} pl_copy;

/** Copy n pieces on the legacy default stream and wait for them.
 *
 *  Units    bytes; mapped, no work runs on either end, and no piece overlaps another.
 *  Params   is_over [out] written in any case: false if copies may still run, since the driver
 *           refused even to wait for the whole context. Then neither end may be unmapped.
 *  Returns  PLEAT_OK; ENOTSUP (the driver has no such call); ECAPTURE; EDRIVER.
 *  Failure  some pieces may have been written.
 *  Threads  any.
 *  Blocks   on the GPU, while it copies. Runs in relaxed capture mode. */
pleat_status pl_copy_run(pl_device *dev, const pl_copy *copies, size_t n, bool *is_over);

#endif
