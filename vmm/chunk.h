/* chunk.h - physical memory, where one chunk is one driver handle.
 *
 * A device's chunks have its chunk size. An allocator with its own page size creates, maps and
 * releases pages with the functions that end in _sized. */
#ifndef PLEAT_VMM_CHUNK_H
#define PLEAT_VMM_CHUNK_H

#include "vmm/device.h"

/* A chunk is its driver handle; 0 = none. The holder keeps the handle (segments keep a handle per
 * granule). */
typedef uint64_t pl_chunk;

/** Create one chunk of the device's chunk size. No policy: limits and idle chunks are the caller's
 *  business (segments/).
 *
 *  Returns  PLEAT_OK; ENOMEM_DEVICE; ENOVMM; EDRIVER; ENOSPACE_VA (the probe found no room for a
 *           granule, nor did its repetition here).
 *  Failure  as before.
 *  Owner    the caller, until pl_chunk_release.
 *  Threads  any.
 *  Blocks   on the driver. */
pleat_status pl_chunk_create(pl_device *dev, pl_chunk *out);

/** Create one chunk of `bytes`.
 *
 *  Units    bytes, a multiple of granules.
 *  Returns  as pl_chunk_create; EINVAL (not a multiple, or 0).
 *  Failure  as before.
 *  Owner    the caller, until pl_chunk_release_sized with the same size.
 *  Threads  any.
 *  Blocks   on the driver. */
pleat_status pl_chunk_create_sized(pl_device *dev, size_t bytes, pl_chunk *out);

/** Give a chunk back to the driver. It must be mapped nowhere.
 *
 *  Returns  PLEAT_OK; EDRIVER.
 *  Failure  still held and counted; the failure is counted as an undo failure.
 *  Threads  any.
 *  Blocks   on the driver. */
pleat_status pl_chunk_release(pl_device *dev, pl_chunk chunk);

/** Give back a chunk of `bytes`, like pl_chunk_release.
 *
 *  Units    bytes, as given to pl_chunk_create_sized.
 *  Returns  PLEAT_OK; EDRIVER.
 *  Failure  still held and counted; the failure is counted as an undo failure.
 *  Threads  any.
 *  Blocks   on the driver. */
pleat_status pl_chunk_release_sized(pl_device *dev, pl_chunk chunk, size_t bytes);

#endif
