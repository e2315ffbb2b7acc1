/* async_pool.h - the driver's own pool: memory is allocated from it and freed in stream order.
 *
 * "Async" as in cuMemAllocAsync; the private pools of graphs are another thing (segments, api).
 * A pool belongs to one pl_device and is apart from the device's default pool. What it holds from
 * the driver is not told but asked: after each allocation and whenever memory may have gone back.
 * Each observed increase of that counts as one ops_alloc, its size as bytes_created and
 * bytes_mapped; each observed decrease as one ops_free. That is what can be seen from outside; the
 * driver may have done more calls for one change, or changes in between that cancel out.
 *
 * All functions may be called from any thread but where said. */
#ifndef PLEAT_VMM_ASYNC_POOL_H
#define PLEAT_VMM_ASYNC_POOL_H

#include "vmm/device.h"
#include "vmm/stream.h"

typedef struct pl_async_pool pl_async_pool;

/* What the driver says of it. Units: bytes. */
typedef struct pl_async_pool_usage {
    uint64_t reserved_bytes, reserved_high_bytes; /* held from the device */
    uint64_t used_bytes, used_high_bytes;         /* in live blocks */
} pl_async_pool_usage;

/** Make a pool.
 *
 *  Params   limit_bytes: the most that it holds, 0 = none: the driver's maximum where it knows one
 *           (CUDA 12.2), else pl_async_pool_alloc keeps it. keep_bytes: the driver gives back what
 *           is held above that when the host synchronises with anything.
 *  Returns  PLEAT_OK; ENOVMM (the device or driver has no pools; the detail says so); ENOMEM_HOST;
 *           EDRIVER.
 *  Failure  nothing is left behind.
 *  Owner    the caller, until pl_async_pool_destroy.
 *  Blocks   on the driver. */
pleat_status pl_async_pool_create(pl_device *dev, uint64_t limit_bytes, uint64_t keep_bytes,
                                  pl_async_pool **out);

/** Destroy it. Frees that are not over delay the return of their memory, not the call.
 *
 *  Returns  the number of driver objects that could not be given back or are still with callers:
 *           blocks, the pool, its stream. NULL is fine.
 *  Threads  the last call on this pool.
 *  Blocks   on the driver. */
size_t pl_async_pool_destroy(pl_async_pool *pool);

/** Allocate: usable by what is submitted to the stream from now on.
 *
 *  Returns  PLEAT_OK; EINVAL (0 bytes); ENOMEM_DEVICE; ECAPTURE (the stream is being captured: a
 *           real driver would make a part of the graph of it); ESTREAM (out of reach); EDRIVER.
 *  Failure  as before; a capture is not disturbed. Where pl_async_pool_alloc keeps the limit
 *           itself, the pool may have grown above it for a moment.
 *  Blocks   on the driver, which may wait for nothing but itself; on the stream only when an
 *           allocation that grew the pool above the limit is undone. */
pleat_status pl_async_pool_alloc(pl_async_pool *pool, size_t bytes, pl_stream *stream,
                                 pleat_devptr *out);

/** Free a block of `bytes`, as they were asked for, in the order of a stream: behind all that was
 *  submitted to it. Uses on other streams must be ordered before.
 *
 *  Returns  PLEAT_OK; ECAPTURE; ESTREAM; EDRIVER.
 *  Failure  still live; a capture is not disturbed.
 *  Blocks   never on the GPU. */
pleat_status pl_async_pool_free(pl_async_pool *pool, pleat_devptr ptr, size_t bytes,
                                pl_stream *stream);

/** Free a block whose uses are over, apart from all streams.
 *
 *  Returns  PLEAT_OK; EDRIVER.
 *  Failure  still live.
 *  Blocks   on the driver, which may wait for running work. */
pleat_status pl_async_pool_free_now(pl_async_pool *pool, pleat_devptr ptr, size_t bytes);

/** Give free memory back until at most keep_bytes are held or nothing more can go. Frees whose end
 *  the host has not seen hold their memory: synchronise first.
 *
 *  Params   released [out] bytes, as observed.
 *  Returns  PLEAT_OK; EDRIVER.
 *  Blocks   on the driver. */
pleat_status pl_async_pool_trim(pl_async_pool *pool, uint64_t keep_bytes, uint64_t *released);

/** Change the limit; 0 = none. Nothing that may serve again goes back by this.
 *
 *  A limit that was not there at creation, or is another one, is kept by pl_async_pool_alloc. The
 *  driver grows by whole steps (32 MiB and multiples), which it makes smaller only below a maximum
 *  of its own: a request is refused when the step that it needs does not fit, though its bytes
 *  would.
 *
 *  Returns  PLEAT_OK; ENOMEM_DEVICE (more is held); EDRIVER (a limit that the driver keeps is
 *           lifted, and the pool that this needs cannot be made).
 *  Failure  the limit is as before. */
pleat_status pl_async_pool_set_limit(pl_async_pool *pool, uint64_t limit_bytes);

/** A stream of the pool's own, made at first use: to gather what a block's streams have in flight
 *  and to free the block behind it, without making any of those wait for another.
 *
 *  Returns  PLEAT_OK; ENOMEM_HOST; EDRIVER. */
pleat_status pl_async_pool_own_stream(pl_async_pool *pool, pl_stream **out);

/* When last asked; without a driver call. */
uint64_t pl_async_pool_held_bytes(const pl_async_pool *pool);

/** Ask the driver.
 *
 *  Returns  PLEAT_OK; EDRIVER (also: it does not tell, before CUDA 11.3. Then the bytes of live
 *           blocks stand for what is held). */
pleat_status pl_async_pool_read(pl_async_pool *pool, pl_async_pool_usage *out);

#endif
