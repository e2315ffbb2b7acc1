/* known.h - bytes that copies have put on a device without contents.
 *
 * Such a device's bytes are zeros, since kernels compute nothing. A copy or a collective writes
 * bytes that stay certain until the next kernel is launched. Programs compare values between ranks
 * (DistributedDataParallel compares its parameters' shapes) by a send, a gather and a read without
 * a kernel between.
 *
 * With backing:memory nothing is kept, since the device has the bytes. Threads: any. */
#ifndef PLEAT_RUNTIME_KNOWN_H
#define PLEAT_RUNTIME_KNOWN_H

#include "vmm/tools/runtime/runtime.h"

/** Are all these bytes known? Copies known bytes to `to` unless NULL. */
bool rt_known_read(cu_devptr ptr, uint64_t bytes, void *to);

/** Lay the known bytes over the zeros that a copy has just set. */
void rt_known_overlay(cu_devptr ptr, uint64_t bytes, void *to);

/** Remember bytes. If they are too many, or without host memory, forget the range. A full list is
 *  emptied first. */
void rt_known_write(cu_devptr ptr, const void *from, uint64_t bytes);
void rt_known_copy(cu_devptr to, cu_devptr from, uint64_t bytes);

void rt_known_forget(cu_devptr ptr, uint64_t bytes);
void rt_known_forget_all(void); /* a kernel */

#endif
