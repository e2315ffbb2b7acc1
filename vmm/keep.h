/* keep.h - copies of device memory on the host, while the device memory is given back. */
#ifndef PLEAT_VMM_KEEP_H
#define PLEAT_VMM_KEEP_H

#include "vmm/device.h"

typedef struct pl_keep pl_keep;

/* Bytes at a device address, and where in the keep they are. */
typedef struct pl_keep_piece {
    pleat_devptr at;
    uint64_t offset;
    uint64_t bytes;
} pl_keep_piece;

/** Have room for `bytes`, in page-locked host memory, in pieces of at most 32 MiB, or in a nameless
 *  file in `folder`, which the system removes when closed.
 *
 *  Params   folder  NULL = host memory.
 *  Returns  PLEAT_OK; ENOMEM_HOST; ENOTSUP (the driver has no page-locked memory); EWRITE (no file
 *           can be made there, or there is no room); EDRIVER.
 *  Failure  nothing is left behind.
 *  Owner    the caller, until pl_keep_close.
 *  Threads  any; each keep is used by one thread at a time.
 *  Blocks   on the driver, which locks the pages; on the disk. */
pleat_status pl_keep_open(pl_device *dev, const char *folder, uint64_t bytes, pl_keep **out);

/** Copy n pieces out of the device's memory, several at a time on streams of the keep's own, and
 *  wait for them.
 *
 *  Units    bytes; mapped, and no work runs on them.
 *  Returns  PLEAT_OK; EWRITE; EDRIVER.
 *  Failure  what the keep holds is of no use; see pl_keep_is_busy.
 *  Blocks   on the GPU and the disk. Runs in relaxed capture mode. */
pleat_status pl_keep_save(pl_keep *keep, const pl_keep_piece *pieces, size_t n);

/** Copy n pieces back, and wait for them. As pl_keep_save; the keep holds them as before, and after
 *  a failure some are not written. */
pleat_status pl_keep_load(pl_keep *keep, const pl_keep_piece *pieces, size_t n);

/** May copies still run, since the driver refused even to wait? Then the device memory that was
 *  named must stay mapped. */
bool pl_keep_is_busy(const pl_keep *keep);

bool pl_keep_is_file(const pl_keep *keep);
uint64_t pl_keep_bytes(const pl_keep *keep);
/** Where in host memory the bytes from `offset` on are; NULL: in a file, or not side by side. The
 *  bytes stay the caller's until the next call that copies. */
void *pl_keep_at(const pl_keep *keep, uint64_t offset, uint64_t bytes);
/** Copy bytes of the keep to host memory. PLEAT_OK; EWRITE (the file cannot be read). */
pleat_status pl_keep_read(const pl_keep *keep, uint64_t offset, uint64_t bytes, void *to);

/** Give everything back. Memory that may still be written, or that the driver does not take, is an
 *  undo failure and stays with the device. The next pl_keep_open or pl_keep_close tries again. NULL
 *  is fine.
 *
 *  Blocks   on the driver. */
void pl_keep_close(pl_keep *keep);
/** The device is being closed: try once more. Returns the count still held: streams, and pieces of
 *  page-locked memory. */
size_t pl_keeps_fini(pl_device *dev);

#endif
