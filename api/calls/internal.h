/* internal.h - access of the `pleat` command to an instance, beyond the public interface. */
#ifndef PLEAT_API_INTERNAL_H
#define PLEAT_API_INTERNAL_H

#include "api/pleat.h"
#include "segments/base/allocator.h"
#include "vmm/device.h"
#include "vmm/driver.h"

/* The instance's driver, or NULL with pleat_last_error. The driver lives until the instance is
 * destroyed; the caller makes sure that nobody destroys the instance meanwhile. */
pl_driver *pleat_internal_driver(pleat instance);
/* The instance's device, opened if need be, or NULL with pleat_last_error. */
pl_device *pleat_internal_device(pleat instance, int device);
/* The device's allocator, opened if need be, or NULL with pleat_last_error. */
pl_allocator *pleat_internal_allocator(pleat instance, int device);

#endif
