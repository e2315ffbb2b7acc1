/* idle.h - a stream on which nothing is ever submitted.
 *
 * Blocks of memory that no stream uses of its own accord, as the host's, belong to it: what is
 * freed in its order is free at once, and other streams' uses are recorded like any. */
#ifndef PLEAT_VMM_IDLE_H
#define PLEAT_VMM_IDLE_H

#include "vmm/stream.h"

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
