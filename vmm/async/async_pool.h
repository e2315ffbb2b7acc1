/* async_pool.h - the driver's own pool: memory is allocated from it and freed in stream order.
 *
 * "Async" as in cuMemAllocAsync. The private pools of graphs are different (segments, api). A pool
 * belongs to one pl_device and is not the device's default pool. The driver does not report a
 * pool's size, so pleat asks after each allocation and whenever memory may have gone back. An
 * observed increase counts as one ops_alloc, and its size as bytes_created and bytes_mapped. An
 * observed decrease counts as one ops_free. One observed change may stand for several driver calls,
 * and changes between two readings that cancel out are not seen.
 *
 * All functions may be called from any thread, unless their comment says otherwise. */
#ifndef PLEAT_VMM_ASYNC_POOL_H
#define PLEAT_VMM_ASYNC_POOL_H

#include "vmm/device.h"
#include "vmm/streams/stream.h"

typedef struct pl_async_pool pl_async_pool;

/** Make a pool.
 *
 *  Params   limit_bytes: the most that the pool holds, 0 = no limit. The driver keeps it as the
 *           pool's maximum size (CUDA 12.2); older ones cannot, so pl_async_pool_alloc keeps it.
 *           keep_bytes: when the host synchronises, the driver gives back what is held above this.
 *  Returns  PLEAT_OK; ENOVMM (the device or driver has no pools; the detail says so); ENOMEM_HOST;
 *           EDRIVER.
 *  Failure  nothing is left behind.
 *  Owner    the caller, until pl_async_pool_destroy.
 *  Blocks   on the driver. */
pleat_status pl_async_pool_create(pl_device *dev, uint64_t limit_bytes, uint64_t keep_bytes,
                                  pl_async_pool **out);

/** Destroy a pool. Unfinished frees delay the return of their memory, not the call.
 *
 *  Returns  the number of driver objects that could not be given back or are still with callers:
 *           blocks, the pool, its stream. NULL is fine.
 *  Threads  the last call on this pool.
 *  Blocks   on the driver. */
size_t pl_async_pool_destroy(pl_async_pool *pool);

/** Allocate memory for work that is submitted to the stream from now on.
 *
 *  Returns  PLEAT_OK; EINVAL (0 bytes); ENOMEM_DEVICE; ECAPTURE (the stream is being captured: a
 *           driver would make the allocation part of the graph); ESTREAM (out of reach); EDRIVER.
 *  Failure  as before; a capture is not disturbed. Where pl_async_pool_alloc keeps the limit
 *           itself, the pool may have grown above it for a moment.
 *  Blocks   on the driver, which may wait for nothing but itself; on the stream only when an
 *           allocation that grew the pool above the limit is undone. */
pleat_status pl_async_pool_alloc(pl_async_pool *pool, size_t bytes, pl_stream *stream,
                                 pleat_devptr *out);

/** Free a block of `bytes` (the size asked for) in the order of a stream, behind all work submitted
 *  to it. The caller has ordered uses on further streams before this call.
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

/** Give free memory back until at most keep_bytes are held or no more can go. A freed block holds
 *  its memory until the host has seen the free complete, so synchronise first.
 *
 *  Params   released [out] bytes, as observed.
 *  Returns  PLEAT_OK; EDRIVER.
 *  Blocks   on the driver. */
pleat_status pl_async_pool_trim(pl_async_pool *pool, uint64_t keep_bytes, uint64_t *released);

/** Change the limit; 0 = none. Memory that may serve again is not given back.
 *
 *  When the driver does not keep a changed limit, pl_async_pool_alloc keeps it. The driver grows a
 *  pool by whole steps (32 MiB and multiples) and shortens a step only to stay below its own
 *  maximum. So a request is refused when its step does not fit, even if its bytes alone would fit.
 *
 *  Returns  PLEAT_OK; ENOMEM_DEVICE (more is held); EDRIVER (a limit that the driver keeps is
 *           lifted, and the pool that this needs cannot be made).
 *  Failure  the limit is as before. */
pleat_status pl_async_pool_set_limit(pl_async_pool *pool, uint64_t limit_bytes);

/** Return a stream of the pool's own, made at first use. The stream waits for all streams that used
 *  a block, and the block is freed in the stream's order. So none of the using streams waits for a
 *  second one.
 *
 *  Returns  PLEAT_OK; ENOMEM_HOST; EDRIVER. */
pleat_status pl_async_pool_own_stream(pl_async_pool *pool, pl_stream **out);

/* Bytes held at the last reading; makes no driver call. Drivers before CUDA 11.3 cannot tell: with
 * them, the bytes of live blocks. */
uint64_t pl_async_pool_held_bytes(const pl_async_pool *pool);

#endif
