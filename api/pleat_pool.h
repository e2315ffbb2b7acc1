/* pleat_pool.h - private pools: memory that CUDA graphs may keep using.
 *
 * Part of pleat.h: see there for results that any call may return. */
#ifndef PLEAT_POOL_H
#define PLEAT_POOL_H

#include "pleat.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Says whether a request on `stream` goes to the pool. Called on the requesting thread, by several
 *  threads at once. Must not call pleat, and must not wait for a caller of pleat_pool_end. */
typedef bool (*pleat_route_fn)(void *stream, void *context);
/** Called when `context` is not used any more. */
typedef void (*pleat_forget_fn)(void *context);

/** Route requests to a private pool from now on, until pleat_pool_end. A new pool is made if
 *  needed; a pool stays until it has been released as often as it was begun.
 *
 *  Blocks allocated meanwhile lie in the pool's addresses, where no other request looks. At first
 *  the memory of freed blocks serves everybody when memory is short, as the default pool's does.
 *  The pool keeps such memory from its first checkpoint on, and from the first capture on that
 *  allocates, frees or records a use in it. Kept memory is reused within the pool only. It is never
 *  unmapped or given back before the pool is released, so addresses baked into a captured graph
 *  belong to the graph. On a stream that is being captured, freed memory is used again by the same
 *  stream.
 *
 *  Params   route   asked for every request on the device; NULL = all go to the pool. If there are
 *                   several routes, the last begun is asked first.
 *           forget  called once when `route` will not be called any more, also if this call fails;
 *                   NULL = nobody needs to know.
 *  Returns  PLEAT_OK; PLEAT_EINVAL (`id` is {0, 0}); PLEAT_ENOTSUP (the allocator has no private
 *           pools); PLEAT_ENOMEM_HOST (also where the device has 65,535 pools: the text says so);
 *           all results of opening the device.
 *  Failure  nothing is routed.
 *  Owner    `context` stays the caller's, until `forget`.
 *  Threads  any.
 *  Blocks   never on the GPU. Makes no call that would break a capture. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_pool_begin(pleat instance, int device, pleat_pool_id id,
                                                       pleat_route_fn route, pleat_forget_fn forget,
                                                       void *context);

/** Stop routing requests to the pool: undo the calling thread's last pleat_pool_begin of the pool;
 *  if the thread made none, undo the last one of any thread.
 *
 *  On return `route` runs in no thread and `forget` has been called, so the program may free the
 *  context. A call from within a `route` cannot wait: then both may come later.
 *
 *  The last end of a pool means that all captures in the pool have ended. If a capture goes on, a
 *  later call that is short of memory may break the capture.
 *
 *  Returns  PLEAT_OK; PLEAT_EDEVICE; PLEAT_EPOOL (nothing is routed to a pool of that name).
 *  Threads  any; requests that other threads are in the middle of may still go there.
 *  Blocks   while its `route` runs in other threads; never on the GPU. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_pool_end(pleat instance, int device, pleat_pool_id id);

/** Say that one user of the pool is gone. With the last user the pool's free memory becomes
 *  everybody's, and live blocks become everybody's once freed. From this call on the program must
 *  not launch a graph that used the pool. Launches already made are safe on any stream, known to
 *  this instance or not.
 *
 *  They are safe because the memory serves nobody until the launches are over. Since CUDA 11.3 the
 *  driver tells when the pool's graphs, their executables and their launches are gone. Failing
 *  that, pleat records a point behind all work of the device after this call, and waits until
 *  that point has passed. Recording would break a capture, so pleat records the point when no
 *  capture is known. This call does not wait. Meanwhile pleat_pool_stats says that the pool is
 *  gone, and counts its memory for the default pool.
 *
 *  A failed capture has no graph. After it, end the route and release the pool as after a good
 *  capture.
 *
 *  Returns  PLEAT_OK; PLEAT_EDEVICE; PLEAT_EPOOL; PLEAT_EBUSY (the last user, but requests are
 *           still routed there).
 *  Failure  as before.
 *  Threads  any.
 *  Blocks   never. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_pool_release(pleat instance, int device,
                                                         pleat_pool_id id);

/** List the private pools of the device, gone pools included, one by one. The list has the last 256
 *  gone pools. When an older gone pool leaves the list, later pools move up by one index.
 *
 *  Units    bytes resident in the pool, by PLEAT_SIZES_...
 *  Params   index  0, 1, 2... in order of first use, gone pools included.
 *  Returns  PLEAT_OK; PLEAT_EINVAL; PLEAT_EDEVICE; PLEAT_EPOOL (there are not that many).
 *  Threads  any.
 *  Blocks   never; opens no device. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_pool_stats(pleat instance, int device, unsigned index,
                                                       pleat_pool_id *id,
                                                       pleat_stat reserved_bytes[PLEAT_N_SIZES]);

#ifdef __cplusplus
}
#endif

#endif
