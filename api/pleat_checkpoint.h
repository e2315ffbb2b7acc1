/* pleat_checkpoint.h - which blocks of a private pool live, remembered and brought back.
 *
 * A program that captures one graph after the other into a pool replays a graph without allocating:
 * its outputs are there again, at the addresses that the graph has baked in, but the allocator
 * takes them for free. Before the next capture it restores the checkpoint that it took when the
 * graph was captured: then exactly those blocks live again.
 *
 *   checkpoint   |## a ##|## b ##|                |#### c ####|
 *   before       |## a ##|            |### d ####|
 *   after        |## a ##|## b ##|                |#### c ####|     a kept, b and c made, d freed
 *
 * A pool's memory is never taken, unmapped or given back before the pool is gone, so what a
 * checkpoint names is always there: a restore maps nothing and writes to no memory.
 *
 * Part of pleat.h, which includes it and says what every call may return. */
#ifndef PLEAT_CHECKPOINT_H
#define PLEAT_CHECKPOINT_H

#include "pleat_pool.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Names a checkpoint on one device of one instance. A value; copies mean the same checkpoint.
 *  Numbers never come again in a process; 0 names none. */
typedef struct pleat_checkpoint {
    uint64_t number;
} pleat_checkpoint;

/** What a restore has done with a block. */
typedef enum pleat_restored {
    PLEAT_RESTORED_FREED, /* it lived, and the checkpoint lacks it: it is free now */
    PLEAT_RESTORED_KEPT,  /* it lived and lives: same address, size and stream */
    PLEAT_RESTORED_MADE,  /* it lives again */
} pleat_restored;

/** A block of a pool. */
typedef struct pleat_pool_block {
    pleat_devptr base;
    size_t bytes; /* rounded: what the block occupies */
    size_t requested_bytes;
    void *stream; /* owner's handle as given */
} pleat_pool_block;

/** Told of a block, on the calling thread, with no lock held. May call pleat, but must not destroy
 *  the instance; must return. */
typedef void (*pleat_block_fn)(void *context, const pleat_pool_block *block);
/** The same, and what was done with it. */
typedef void (*pleat_restored_fn)(void *context, pleat_restored what,
                                  const pleat_pool_block *block);

/** Remember the live blocks of a private pool: addresses, sizes and streams, not their contents.
 *
 *  Returns  PLEAT_OK; PLEAT_EPOOL (there is none of that name, or it is gone); PLEAT_ENOTSUP (the
 *           allocator has no private pools); PLEAT_ENOMEM_HOST.
 *  Failure  nothing is remembered.
 *  Owner    the caller, until pleat_checkpoint_release; it goes with the instance, too. It outlives
 *           its pool, but can be restored no more then.
 *  Threads  any. A block that another thread allocates or frees meanwhile is in it or not.
 *  Blocks   never; opens no device. Some thousand blocks are read in one hold of the lock.
 *  Source   PyTorch's CUDACachingAllocator::getCheckpointState. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_checkpoint_take(pleat instance, int device,
                                                            pleat_pool_id id,
                                                            pleat_checkpoint *out);

enum {
    /** All work that uses the pool's free memory, and what the restore frees, is over, or comes
     *  before all work that is submitted from now on: the pool gives it to any of its streams, and
     *  to captures, at once. Else it waits for its last uses as after pleat_block_free. */
    PLEAT_RESTORE_SETTLED = 1,
};

/** Make exactly the checkpoint's blocks live in its pool, each at its address, with its size and
 *  stream, and tell what was done.
 *
 *  What lives and is not in the checkpoint is freed, as its own stream would, so nobody may free it
 *  any more. A block that is the same in both is left as it is, its recorded uses included. What is
 *  made over memory that another stream used since waits for that use when it is freed; whoever
 *  writes to it earlier orders the streams himself.
 *
 *  Params   flags  0, or PLEAT_RESTORE_SETTLED.
 *           see    told of every block, after all is done: first those freed, then those that live
 *                  now, each by address. A block of other size or stream is told twice, as freed
 *                  and as made. NULL = nobody is told.
 *  Returns  PLEAT_OK; PLEAT_EINVAL (no such checkpoint on this device, or it was released; unknown
 *           flags); PLEAT_EPOOL (its pool was released, even if one of that name was begun since);
 *           PLEAT_EPENDING (what lies under its blocks may still be used by other streams, and
 *           reaches beyond one of them, or by a capture that goes on: the text says where);
 *           PLEAT_EBUSY (other threads' requests to the pool were not over within `wait_ms`, or
 *           this is called within one); PLEAT_EPOISONED (memory under its blocks is out of
 *           service); PLEAT_ENOMEM_HOST; PLEAT_ENOTSUP.
 *  Failure  every block of the pool is as before.
 *  Owner    of what was made, the caller, until pleat_block_free or a later restore.
 *  Threads  any; one restore of a pool at a time. Other threads' requests to the pool wait
 *           meanwhile, as do calls that name a block which is being freed; all else goes on.
 *  Blocks   at most `wait_ms` on requests of other threads; never on the GPU. Makes no call that
 *           would break a capture. Some thousand blocks are handled in one hold of the lock.
 *  Source   PyTorch's CUDACachingAllocator::setCheckpointPoolState: its ptrs_freed are what is
 *           freed or kept here, its dataptrs_allocd what is kept or made. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_checkpoint_restore(pleat instance, int device,
                                                               pleat_checkpoint checkpoint,
                                                               unsigned flags,
                                                               pleat_restored_fn see,
                                                               void *context);

/** Tell of the blocks of a checkpoint, by address.
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
 *           PLEAT_EBUSY (it is being restored or visited now). PLEAT_EGONE does no harm: it went
 *           with its instance.
 *  Failure  as before.
 *  Threads  any.
 *  Blocks   never; opens no device. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_checkpoint_release(pleat instance, int device,
                                                               pleat_checkpoint checkpoint);

/** Allocate a block of a private pool at a given address, from memory that the pool has and that is
 *  free there, all of it.
 *
 *  Units    bytes, 1 to 2^60; the address is a multiple of 512.
 *  Params   stream  as pleat_block_alloc; memory that pends on others is not taken.
 *  Returns  PLEAT_OK; PLEAT_EINVAL; PLEAT_ESIZE; PLEAT_EPOOL; PLEAT_ENOTSUP; PLEAT_EFOREIGN (the
 *           pool has no memory there); PLEAT_EBUSY (a block lives there, or others' requests to the
 *           pool were not over within `wait_ms`); PLEAT_EPENDING; PLEAT_ECAPTURE (the stream is
 *           being captured); PLEAT_ESTREAM; PLEAT_ENOMEM_HOST; PLEAT_EDRIVER.
 *  Failure  as before.
 *  Owner    the caller, until pleat_block_free or a restore that frees it.
 *  Threads  as pleat_checkpoint_restore.
 *  Blocks   as pleat_checkpoint_restore. Maps nothing. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_pool_alloc_at(pleat instance, int device,
                                                          pleat_pool_id id, pleat_devptr address,
                                                          size_t bytes, void *stream);

/** Add a user to a private pool without routing requests there. The pool is made if new; the user
 *  goes with pleat_pool_release.
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

/** Tell how much memory a private pool holds. For one pool this takes the same time however many
 *  there are; pleat_pool_stats tells of all.
 *
 *  Units    bytes resident in the pool, by PyTorch's pools. What earlier pools have left there
 *           counts, although all may have it until this pool uses it.
 *  Params   bytes [out] 0 = there is no pool of that name, or it is gone.
 *  Returns  PLEAT_OK; PLEAT_EINVAL; PLEAT_EDEVICE.
 *  Threads  any.
 *  Blocks   never; opens no device. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_pool_held(pleat instance, int device, pleat_pool_id id,
                                                      uint64_t *bytes);

/** Tell whether the captures that allocated in a private pool have left no graph: then the pool's
 *  free memory is no graph's.
 *
 *  Params   captures [out] how many there were since the pool was made, if the driver has told of
 *           each that its graph, executables and launches are gone, or that it failed. 0 = of some
 *           it has not, or can not; or there were none; or there is no pool of that name.
 *  Returns  PLEAT_OK; PLEAT_EINVAL; PLEAT_EDEVICE.
 *  Threads  any. Another capture may begin meanwhile.
 *  Blocks   never; opens no device. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_pool_gone(pleat instance, int device, pleat_pool_id id,
                                                      uint64_t *captures);

/** Tell whether the live blocks of a private pool are exactly those at the given addresses.
 *
 *  Units    `n` addresses in any order; one that is there twice counts once.
 *  Params   odd [out] 0 if they are; else the lowest address that is on one side only. May be NULL.
 *  Returns  PLEAT_OK, whatever was found; PLEAT_EINVAL; PLEAT_EPOOL; PLEAT_ENOTSUP;
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
