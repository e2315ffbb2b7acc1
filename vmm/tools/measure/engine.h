/* engine.h - how fast plain copies to the host and back are: the limit for whatever keeps device
 * memory there. */
#ifndef PLEAT_VMM_ENGINE_H
#define PLEAT_VMM_ENGINE_H

#include "vmm/tools/measure/measure_work.h"

/* Times of one pass, in ns by the clock of the host. */
typedef struct pl_engine_times {
    uint64_t lock_ns; /* to have page-locked memory of that size */
    uint64_t out_ns;  /* from the device */
    uint64_t in_ns;   /* to the device */
} pl_engine_times;

/** Copy `bytes` of device memory to page-locked memory of the host and back, in pieces of 32 MiB on
 *  four streams, and wait for it.
 *
 *  Units    bytes; mapped, and no other work is on them. Their contents stay.
 *  Returns  PLEAT_OK; ENOTSUP (the driver has no page-locked memory); ENOMEM_HOST; EDRIVER.
 *  Failure  nothing is left behind, unless the driver refuses to free.
 *  Threads  the one that opened `work`.
 *  Blocks   on the driver and the GPU. */
pleat_status pl_engine_time(pl_work *work, pleat_devptr ptr, uint64_t bytes, pl_engine_times *out);

#endif
