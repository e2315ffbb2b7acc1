/* pleat_pool.h - private pools: memory that CUDA graphs may keep using.
 *
 * Part of pleat.h, which includes it and says what every call may return. */
#ifndef PLEAT_POOL_H
#define PLEAT_POOL_H

#include "pleat.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Names a private pool, as PyTorch's MempoolId_t does; {0, 0} names none. */
typedef struct pleat_pool_id {
    uint64_t first;
    uint64_t second;
} pleat_pool_id;

/** Does a request on `stream` go to the pool? Called on the thread that asks for memory, from any
 *  number at once; must not call pleat, nor wait for what a caller of pleat_pool_end holds. */
typedef bool (*pleat_route_fn)(void *stream, void *context);
/** `context` is not used any more. */
typedef void (*pleat_forget_fn)(void *context);

/** Route requests to a private pool from now on, until pleat_pool_end. The pool is made if new; it
 *  stays until it has been released as often as it was begun.
 *
 *  What is allocated meanwhile is reused only within the pool, and its memory is never taken,
 *  unmapped or given back before the pool is released: so the addresses that a captured graph has
 *  baked in stay its own. On a stream that is being captured, memory freed there is used again by
 *  the same stream.
 *
 *  Params   route   asked for every request on the device; NULL = all go to the pool. Of several
 *           routes the one begun last is asked first.
 *           forget  called once when `route` will not be called any more, also if this call fails;
 *                   NULL = nobody needs to know.
 *  Returns  PLEAT_OK; PLEAT_EINVAL (`id` is {0, 0}); PLEAT_ENOTSUP (the allocator has no private
 *           pools); PLEAT_ENOMEM_HOST (also where the device has 65,535 pools: the text says so);
 *           what opening the device returns.
 *  Failure  nothing is routed.
 *  Owner    `context` stays the caller's, until `forget`.
 *  Threads  any.
 *  Blocks   never on the GPU. Makes no call that would break a capture. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_pool_begin(pleat instance, int device, pleat_pool_id id,
                                                       pleat_route_fn route, pleat_forget_fn forget,
                                                       void *context);

/** Route requests to the pool no more: undoes the last pleat_pool_begin of that pool by the calling
 *  thread; if it made none, the last one of any thread.
 *
 *  On return its `route` runs in no thread and `forget` has been called, so what they use may go.
 *  Only within a `route`, where nobody can wait, both may come later.
 *
 *  The last one of a pool tells that the captures in which it was used have ended. One that goes on
 *  may be broken by a later call that is short of memory.
 *
 *  Returns  PLEAT_OK; PLEAT_EDEVICE; PLEAT_EPOOL (nothing is routed to a pool of that name).
 *  Threads  any; requests that other threads are in the middle of may still go there.
 *  Blocks   while its `route` runs in other threads; never on the GPU. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_pool_end(pleat instance, int device, pleat_pool_id id);

/** Say that one user of the pool is gone. With the last one its free memory is everybody's, and
 *  that of its live blocks when they are freed; but no launch of a graph that used the pool can see
 *  that, on whichever stream it was made, known to this instance or not. After this call such a
 *  graph is not launched any more.
 *
 *  For its launches are waited for, not here but before the memory goes on: until the driver says
 *  that the pool's graphs are gone, their executables and their launches with them (since CUDA
 *  11.3), or until a point behind all work of the device, recorded after this call, has passed.
 *  That point would break a capture, so it is recorded when none is known of. Until then
 *  pleat_pool_stats says that the pool is gone and its memory counts as the default pool's, but
 *  serves nobody.
 *
 *  A capture that failed has no graph: end its route and release the pool as after any other.
 *
 *  Returns  PLEAT_OK; PLEAT_EDEVICE; PLEAT_EPOOL; PLEAT_EBUSY (the last user, but requests are
 *           still routed there).
 *  Failure  as before.
 *  Threads  any.
 *  Blocks   never. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_pool_release(pleat instance, int device,
                                                         pleat_pool_id id);

/** Tell of the private pools that the device has or had, one by one. Of those that are gone the
 *  last 256 are known; one that went earlier leaves its place, and those behind it move up.
 *
 *  Units    bytes resident in the pool, by PLEAT_SIZES_...
 *  Params   index  0, 1, 2... in order of first use, pools that are gone among them.
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
