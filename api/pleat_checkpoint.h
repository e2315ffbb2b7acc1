/* pleat_checkpoint.h - remember the live blocks of a private pool, and restore them.
 *
 * A program may capture many graphs into one pool. Replaying a graph allocates nothing:
 * its outputs return at the addresses baked into the graph, but the allocator takes these addresses
 * for free. So a program takes a checkpoint when a graph is captured, and restores the checkpoint
 * before the next capture: then exactly the checkpoint's blocks live again.
 *
 *   checkpoint   |## a ##|## b ##|                |#### c ####|
 *   before       |## a ##|            |### d ####|
 *   after        |## a ##|## b ##|                |#### c ####|     a kept, b and c made, d freed
 *
 * A pool's memory is never taken, unmapped or given back before the pool is gone. So memory under
 * the blocks of a checkpoint always exists: a restore maps nothing and writes to no memory.
 *
 * Part of pleat.h: see there for results that any call may return. */
#ifndef PLEAT_CHECKPOINT_H
#define PLEAT_CHECKPOINT_H

#include "pleat_pool.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Names a checkpoint on one device of one instance. A value; copies mean the same checkpoint. A
 *  process never uses a number twice; 0 names none. */
typedef struct pleat_checkpoint {
    uint64_t number;
} pleat_checkpoint;

/** What a restore did with a block. */
typedef enum pleat_restored {
    PLEAT_RESTORED_FREED, /* a live block that the checkpoint lacks: now free */
    PLEAT_RESTORED_KEPT,  /* a live block of the checkpoint: same address, size and stream */
    PLEAT_RESTORED_MADE,  /* a block of the checkpoint that lives again */
} pleat_restored;

/** A block of a pool. */
typedef struct pleat_pool_block {
    pleat_devptr base;
    size_t bytes; /* rounded: the bytes that the block occupies */
    size_t requested_bytes;
    void *stream; /* owner's handle as given */
} pleat_pool_block;

/** Called for each block, on the calling thread, with no lock held. May call pleat, but must not
 *  destroy the instance; must return. */
typedef void (*pleat_block_fn)(void *context, const pleat_pool_block *block);
/** Like pleat_block_fn; `what` says what a restore did with the block. */
typedef void (*pleat_restored_fn)(void *context, pleat_restored what,
                                  const pleat_pool_block *block);

/** Remember the live blocks of a private pool: addresses, sizes and streams, not their contents.
 *
 *  From now on the pool keeps the memory of blocks that are freed (pleat_pool_begin), so that a
 *  restore finds it.
 *
 *  Returns  PLEAT_OK; PLEAT_EPOOL (there is no pool of that name, or it is gone); PLEAT_ENOTSUP
 *           (the allocator has no private pools); PLEAT_ENOMEM_HOST.
 *  Failure  nothing is remembered.
 *  Owner    the caller, until pleat_checkpoint_release or the instance's end. A checkpoint outlives
 *           its pool, but cannot be restored without the pool.
 *  Threads  any. A block that another thread allocates or frees meanwhile may be included or not.
 *  Blocks   never; opens no device. Some thousand blocks are read in one hold of the lock.
 *  Source   PyTorch's CUDACachingAllocator::getCheckpointState. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_checkpoint_take(pleat instance, int device,
                                                            pleat_pool_id id,
                                                            pleat_checkpoint *out);

enum {
    /** The caller promises: all work that uses the pool's free memory, or blocks that the restore
     *  frees, is over, or is ordered before all later work. Then the pool may give the memory to
     *  any of its streams, and to captures, at once. Without this flag the memory waits for its
     *  last uses, as after pleat_block_free. The promise is about work of the pool's owner: memory
     *  that others still used when the pool got the memory waits for them all the same. */
    PLEAT_RESTORE_SETTLED = 1,
};

/** Make exactly the checkpoint's blocks live in the pool, with their addresses, sizes and streams,
 *  and tell what was done.
 *
 *  Live blocks outside the checkpoint are freed, as on their own streams. The program must not free
 *  them again. A live block that the checkpoint has stays as it is, its recorded uses included. If
 *  another stream has since used the memory of a made block, a later free of the block waits for
 *  that use. A program that writes earlier must order the streams itself.
 *
 *  Params   flags  0, or PLEAT_RESTORE_SETTLED.
 *           see    called for every block once all is done: first freed blocks, then live blocks,
 *                  both by address. A block whose size or stream changes counts as freed and made:
 *                  `see` gets two calls. NULL = no calls.
 *  Returns  PLEAT_OK; PLEAT_EINVAL (no such checkpoint on this device, or it was released; unknown
 *           flags); PLEAT_EPOOL (its pool was released, even if a new one has the same name);
 *           PLEAT_EPENDING (a capture under way may still use memory under its blocks, or other
 *           streams may use a piece that reaches beyond a block: the text says where); PLEAT_EBUSY
 *           (other threads' requests to the pool were not over within `wait_ms`, or the caller is
 *           inside such a request); PLEAT_EPOISONED (memory under its blocks is out of service);
 *           PLEAT_ENOMEM_HOST; PLEAT_ENOTSUP.
 *  Failure  every block of the pool is as before.
 *  Owner    the caller owns made blocks, until pleat_block_free or a later restore.
 *  Threads  any; one restore of a pool at a time. Other threads' requests to the pool wait
 *           meanwhile, as do calls that name a block which the restore frees; other calls go on.
 *  Blocks   at most `wait_ms` on requests of other threads; never on the GPU. Makes no call that
 *           would break a capture. Some thousand blocks are handled in one hold of the lock.
 *  Source   PyTorch's CUDACachingAllocator::setCheckpointPoolState: its ptrs_freed are the blocks
 *           freed or kept here, its dataptrs_allocd the blocks kept or made. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_checkpoint_restore(pleat instance, int device,
                                                               pleat_checkpoint checkpoint,
                                                               unsigned flags,
                                                               pleat_restored_fn see,
                                                               void *context);

/** Visit the blocks of a checkpoint, by address.
 *
 *  Returns  PLEAT_OK; PLEAT_EINVAL (no such checkpoint on this device; `see` is NULL).
 *  Threads  any.
 *  Blocks   never; opens no device. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_checkpoint_visit(pleat instance, int device,
                                                             pleat_checkpoint checkpoint,
                                                             pleat_block_fn see, void *context);

/** Forget a checkpoint.
 *
 *  Returns  PLEAT_OK; PLEAT_EINVAL (no such checkpoint on this device, or it was released);
 *           PLEAT_EBUSY (it is being restored or visited now). PLEAT_EGONE does no harm: the
 *           checkpoint went with its instance.
 *  Failure  as before.
 *  Threads  any.
 *  Blocks   never; opens no device. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_checkpoint_release(pleat instance, int device,
                                                               pleat_checkpoint checkpoint);

/** Allocate a block of a private pool at a given address, where the pool has free memory for all of
 *  the block.
 *
 *  Units    bytes, 1 to 2^60; the address is a multiple of 512.
 *  Params   stream  as pleat_block_alloc; memory that pends on other streams is refused.
 *  Returns  PLEAT_OK; PLEAT_EINVAL; PLEAT_ESIZE; PLEAT_EPOOL; PLEAT_ENOTSUP; PLEAT_EFOREIGN (the
 *           pool has no memory there); PLEAT_EBUSY (a block lives there, or other threads' requests
 *           to the pool were not over within `wait_ms`); PLEAT_EPENDING; PLEAT_ECAPTURE (the stream
 *           is being captured); PLEAT_ESTREAM; PLEAT_ENOMEM_HOST; PLEAT_EDRIVER.
 *  Failure  as before.
 *  Owner    the caller, until pleat_block_free or a restore that frees it.
 *  Threads  as pleat_checkpoint_restore.
 *  Blocks   as pleat_checkpoint_restore. Maps nothing. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_pool_alloc_at(pleat instance, int device,
                                                          pleat_pool_id id, pleat_devptr address,
                                                          size_t bytes, void *stream);

/** Add a user to a private pool without routing requests to the pool. A new pool is made if needed.
 *  The user goes with pleat_pool_release.
 *
 *  Returns  as pleat_pool_begin.
 *  Failure  as before.
 *  Threads  any.
 *  Blocks   never on the GPU. Makes no call that would break a capture.
 *  Source   PyTorch's createOrIncrefPool. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_pool_hold(pleat instance, int device, pleat_pool_id id);

/** Count the users of a private pool: begun or held, and not yet released.
 *
 *  Params   users [out] 0 = there is no pool of that name, or it is gone.
 *  Returns  PLEAT_OK; PLEAT_EINVAL.
 *  Threads  any.
 *  Blocks   never; opens no device.
 *  Source   PyTorch's getPoolUseCount. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_pool_users(pleat instance, int device, pleat_pool_id id,
                                                       unsigned *users);

/** Tell how much memory a private pool holds. The time does not depend on the number of pools;
 *  pleat_pool_stats tells of all pools.
 *
 *  Units    bytes resident in the pool, by PyTorch's pools. Memory that earlier pools left there
 *           counts, although everybody may have it until this pool uses it.
 *  Params   bytes [out] 0 = there is no pool of that name, or it is gone.
 *  Returns  PLEAT_OK; PLEAT_EINVAL; PLEAT_EDEVICE.
 *  Threads  any.
 *  Blocks   never; opens no device. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_pool_held(pleat instance, int device, pleat_pool_id id,
                                                      uint64_t *bytes);

/** Tell whether all graphs of captures that allocated in a private pool are gone: then no graph can
 *  use the pool's free memory.
 *
 *  Params   captures [out] the number of captures since the pool was made, if for each one the
 *           driver has told that its graph, executables and launches are gone, or that it failed.
 *           0 = the driver has not told of each, or cannot; or there were none; or there is no pool
 *           of that name.
 *  Returns  PLEAT_OK; PLEAT_EINVAL; PLEAT_EDEVICE.
 *  Threads  any. Another capture may begin meanwhile.
 *  Blocks   never; opens no device. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_pool_gone(pleat instance, int device, pleat_pool_id id,
                                                      uint64_t *captures);

/** Tell whether the live blocks of a private pool are exactly the blocks at the given addresses.
 *
 *  Units    `n` addresses in any order; a repeated address counts once.
 *  Params   odd [out] 0 if both sets are equal; else the lowest address in only one set. May be
 *           NULL.
 *  Returns  PLEAT_OK, also for different sets; PLEAT_EINVAL; PLEAT_EPOOL; PLEAT_ENOTSUP;
 *           PLEAT_ENOMEM_HOST.
 *  Threads  any. A block that another thread allocates or frees meanwhile lives or does not.
 *  Blocks   never; opens no device. Some thousand blocks are read in one hold of the lock.
 *  Source   PyTorch's checkPoolLiveAllocations. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_pool_compare(pleat instance, int device,
                                                         pleat_pool_id id,
                                                         const pleat_devptr *addresses, size_t n,
                                                         bool *is_same, pleat_devptr *odd);

#ifdef __cplusplus
}
#endif

#endif
