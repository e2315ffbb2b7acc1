/* known.h - bytes that copies have put on a device without contents.
 *
 * Such a device's bytes are zeros, since kernels compute nothing. But what a copy or a collective
 * has written there is known for certain until the next kernel is launched, whatever it writes:
 * programs that compare something between their ranks (DistributedDataParallel its parameters'
 * shapes) send it, gather it and read it without a kernel between.
 *
 * With backing:memory nothing is kept, since the device has the bytes. Threads: any. */
#ifndef PLEAT_RUNTIME_KNOWN_H
#define PLEAT_RUNTIME_KNOWN_H

#include "vmm/runtime/runtime.h"

/** Are all of these bytes known? Copies them to `to` unless that is NULL. */
bool rt_known_read(cu_devptr ptr, uint64_t bytes, void *to);

/** Lay what is known over the bytes that a copy has just set to 0. */
void rt_known_overlay(cu_devptr ptr, uint64_t bytes, void *to);

/** Remember bytes, or forget what was there: too many of them, or no host memory. */
void rt_known_write(cu_devptr ptr, const void *from, uint64_t bytes);
void rt_known_copy(cu_devptr to, cu_devptr from, uint64_t bytes);

void rt_known_forget(cu_devptr ptr, uint64_t bytes);
void rt_known_forget_all(void); /* a kernel */

#endif
