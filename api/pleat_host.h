/* pleat_host.h - pinned host memory, cached as device memory is.
 *
 * Part of pleat.h: see there for results that any call may return.
 *
 *   pleat_create("memory:host", &host);             an instance whose memory is the host's
 *   pleat_host_alloc(host, device, bytes, &p);      the program may write there at once
 *   ... cuMemcpyHtoDAsync(d, p, bytes, stream) ...
 *   pleat_host_free(host, device, p, stream);       not used again before the copy is over
 *
 * An instance with `memory:host` manages page-locked host memory instead of device memory. It has
 * segments that grow and shrink, blocks in steps of 512 bytes, and chunks of the driver's
 * granularity. Where the driver cannot map host memory (cuMemCreate on a host node), the allocator
 * torch-native gets whole pieces from cuMemHostAlloc, unless `fallback` names another allocator.
 * Before CUDA 13.2 a driver is asked only if `host_node` names a node, since it may crash.
 * Limits, trimming, statistics, histories, snapshots, private pools and buffers that grow in place
 * (pleat_buffer.h) work as in any instance. `device` says on which device's streams the memory is
 * used; with `peers:True` all devices may use it. `host_node` chooses the NUMA node (default: the
 * node nearest to the GPU).
 *
 * A block belongs to no stream, because the program itself uses the block, and no stream's order
 * holds a program back. So a freed block serves again once every named use is over. A block freed
 * unused serves again at once. A program may call
 * pleat_block_alloc, too: its blocks follow the order of their stream, for work on streams only. */
#ifndef PLEAT_HOST_H
#define PLEAT_HOST_H

#include "pleat.h"

#ifdef __cplusplus
extern "C" {
#endif

/** In place of a stream: only recorded streams have used the block. */
#define PLEAT_HOST_UNUSED ((void *)UINTPTR_MAX)

/** Allocate pinned memory.
 *
 *  Units    bytes, in [1, 2^60], rounded up to 512; the address is a multiple of 512.
 *  Params   out [out]  the first address, for the host and for the device alike.
 *  Returns  as pleat_block_alloc; PLEAT_ENOTSUP (the instance has `memory:device`).
 *  Failure  as before.
 *  Owner    the caller, until pleat_host_free.
 *  Threads  any.
 *  Blocks   as pleat_block_alloc; asks the driver about no stream. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_host_alloc(pleat instance, int device, size_t bytes,
                                                       void **out);

/** Free pinned memory. The memory serves again once work submitted so far is over, on `stream` and
 *  on recorded streams.
 *
 *  Params   stream  the last stream to use the block, NULL = the legacy default stream; or
 *                   PLEAT_HOST_UNUSED.
 *  Returns  as pleat_block_free; PLEAT_ENOTSUP.
 *  Failure  still allocated.
 *  Threads  any.
 *  Blocks   never on the GPU. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_host_free(pleat instance, int device, void *ptr,
                                                      void *stream);

/** Note that work on `stream` uses the block.
 *
 *  Returns  as pleat_block_record_stream; PLEAT_ENOTSUP.
 *  Failure  as before.
 *  Threads  any.
 *  Blocks   never on the GPU. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_host_record_stream(pleat instance, int device,
                                                               void *ptr, void *stream);

#ifdef __cplusplus
}
#endif

#endif
