/* async_pool_state.h - the inside of a pl_async_pool, for its own files only.
 *
 * A driver pool's maximum cannot be changed later. When the limit rises above it, a second driver
 * pool without a maximum is made, and the first one serves frees only. Guarded by the device's
 * lock, which is not held across a driver call. */
#ifndef PLEAT_VMM_ASYNC_POOL_STATE_H
#define PLEAT_VMM_ASYNC_POOL_STATE_H

#include "vmm/async/async_pool.h"
#include "vmm/device_state.h"

enum { PL_ASYNC_POOL_HANDLES = 2 };

struct pl_async_pool {
    pl_device *dev;                            /* const */
    bool has_counts;                           /* const: the driver tells how much a pool holds */
    uint64_t keep_bytes;                       /* const */
    cu_mempool handles[PL_ASYNC_POOL_HANDLES]; /* lock */
    unsigned n_handles;                        /* lock: the last handle serves allocations */
    uint64_t max_bytes;                        /* lock: maximum of the last handle; 0 = none */
    uint64_t limit_bytes;                      /* lock */
    uint64_t live_bytes;                       /* lock: sizes as asked for */
    size_t n_live;                             /* lock: blocks */
    uint64_t n_begun, n_noted;                 /* lock: numbers of the readings */
    _Atomic uint64_t held_bytes;               /* atomic; written under the lock */
    pl_stream *own_stream;                     /* lock: NULL until needed */
    cu_stream own_handle;                      /* lock */
};

/* async_pool_held.c. Adds the driver's figure to *sum; false if the driver does not tell. */
bool pl_async_pool_attribute(const pl_async_pool *pool, cu_mempool handle, int attribute,
                             uint64_t *sum);
void pl_async_pool_note_held_locked(pl_async_pool *pool, uint64_t held_bytes);
/* Copies the handles and returns their number. */
unsigned pl_async_pool_handles(pl_async_pool *pool, cu_mempool handles[PL_ASYNC_POOL_HANDLES]);
/* Ask the driver how much the pool holds, and note the answer. Inside a scope. A failed reading
 * changes nothing. */
void pl_async_pool_observe(pl_async_pool *pool);

/* async_pool.c. Makes one pool of the driver, inside a scope. If the driver refuses the maximum,
 * the pool is made without a maximum, and *max_bytes is 0. The driver's rules of reuse keep their
 * defaults (all on). */
pleat_status pl_async_pool_make_handle(pl_device *dev, uint64_t keep_bytes, uint64_t *max_bytes,
                                       cu_mempool *out);
/* A refused call is tried once more. */
bool pl_async_pool_destroy_handle(pl_device *dev, cu_mempool handle);

#endif
