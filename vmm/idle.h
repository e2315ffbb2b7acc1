/* idle.h - a stream on which nothing is ever submitted.
 *
 * Owns blocks of memory without a natural stream, such as host memory. A block freed in this
 * stream's order is free at once, and uses on ordinary streams are recorded as usual. */
#ifndef PLEAT_VMM_IDLE_H
#define PLEAT_VMM_IDLE_H

#include "vmm/streams/stream.h"

/** The device's idle stream, made at first use; held for ever.
 *
 *  Returns  PLEAT_OK; ENOMEM_HOST; EDRIVER.
 *  Failure  as before.
 *  Owner    the device.
 *  Threads  any.
 *  Blocks   on a few driver calls, once. */
pleat_status pl_device_idle_stream(pl_device *dev, pl_stream **out);

/* The device is being closed. */
void pl_idle_end(pl_device *dev);

#endif
