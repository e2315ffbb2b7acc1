/* pleat_host.h - pinned host memory, cached as device memory is.
 *
 * Part of pleat.h, which includes it and says what every call may return.
 *
 *   pleat_create("memory:host", &host);             an instance whose memory is the host's
 *   pleat_host_alloc(host, device, bytes, &p);      the program may write there at once
 *   ... cuMemcpyHtoDAsync(d, p, bytes, stream) ...
 *   pleat_host_free(host, device, p, stream);       not used again before the copy is over
 *
 * An instance with `memory:host` manages page-locked memory of the host in place of the devices':
 * segments that grow and shrink, blocks in steps of 512 bytes, chunks of the driver's granularity.
 * Where the driver cannot map host memory (cuMemCreate on a host node), it gets whole pieces from
 * cuMemHostAlloc, by the allocator torch-native unless `fallback` names another one. Limits,
 * trimming, statistics, histories, snapshots, private pools and buffers that grow in place
 * (pleat_buffer.h) are those of any instance: `device` says on whose streams the memory is used,
 * and with `peers:True` all devices may use it. `host_node` chooses the NUMA node
 * (the one nearest to the GPU).
 *
 * A block belongs to no stream, because the program itself uses it, which no stream's order holds
 * back: once freed, it serves again when every use that was named is over, and not before. Blocks
 * that are freed unused serve again at once. Memory of such an instance from pleat_block_alloc is
 * in the order of its stream instead, so only for work on streams. */
#ifndef PLEAT_HOST_H
#define PLEAT_HOST_H

#include "pleat.h"

#ifdef __cplusplus
extern "C" {
#endif

/** In place of a stream: no stream has used the block, beside those recorded. */
#define PLEAT_HOST_UNUSED ((void *)UINTPTR_MAX)

/** Allocate pinned memory.
 *
 *  Units    bytes, in [1, 2^60]; rounded up to 512; the address is a multiple of that.
 *  Params   out [out]  where it begins, for the host and for the device alike.
 *  Returns  as pleat_block_alloc; PLEAT_ENOTSUP (the instance has `memory:device`).
 *  Failure  as before.
 *  Owner    the caller, until pleat_host_free.
 *  Threads  any.
 *  Blocks   as pleat_block_alloc; asks the driver about no stream. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_host_alloc(pleat instance, int device, size_t bytes,
                                                       void **out);

/** Free it. It serves again when the work submitted so far on `stream`, and on the streams that
 *  were recorded, is over.
 *
 *  Params   stream  the stream that used it last, NULL = the legacy default stream; or
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
