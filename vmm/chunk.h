/* chunk.h - physical memory: one chunk = one driver handle.
 *
 * A device's chunks are of its chunk size; an allocator that manages memory by pages of its own
 * creates, maps and releases them with the functions that end in _sized. */
#ifndef PLEAT_VMM_CHUNK_H
#define PLEAT_VMM_CHUNK_H

#include "vmm/device.h"

/* A chunk is its driver handle; 0 is none. Who holds it keeps it (segments keep it per granule). */
typedef uint64_t pl_chunk;

/** Create one chunk of the device's chunk size. No policy: limits and idle chunks are the caller's
 *  (segments/supply).
 *
 *  Returns  PLEAT_OK; ENOMEM_DEVICE; ENOVMM; EDRIVER.
 *  Failure  as before.
 *  Owner    the caller, until pl_chunk_release.
 *  Threads  any.
 *  Blocks   on the driver. */
pleat_status pl_chunk_create(pl_device *dev, pl_chunk *out);

/** Create one chunk of that size.
 *
 *  Units    bytes, a multiple of granules.
 *  Returns  as pl_chunk_create; EINVAL (not a multiple, or 0).
 *  Failure  as before.
 *  Owner    the caller, until pl_chunk_release_sized with the same size.
 *  Threads  any.
 *  Blocks   on the driver. */
pleat_status pl_chunk_create_sized(pl_device *dev, size_t bytes, pl_chunk *out);

/** Give it back to the driver. Must be mapped nowhere.
 *
 *  Returns  PLEAT_OK; EDRIVER.
 *  Failure  still held and counted; the failure is counted as an undo failure.
 *  Threads  any.
 *  Blocks   on the driver. */
pleat_status pl_chunk_release(pl_device *dev, pl_chunk chunk);

/** Give back a chunk of that size: as pl_chunk_release.
 *
 *  Units    bytes, those of pl_chunk_create_sized.
 *  Returns  PLEAT_OK; EDRIVER.
 *  Failure  still held and counted; the failure is counted as an undo failure.
 *  Threads  any.
 *  Blocks   on the driver. */
pleat_status pl_chunk_release_sized(pl_device *dev, pl_chunk chunk, size_t bytes);

#endif
