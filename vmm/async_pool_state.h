/* async_pool_state.h - the inside of a pl_async_pool, for its own files only.
 *
 * A maximum cannot be changed later: a limit that rises above it gets a second driver pool without
 * one, and the first serves no allocation any more, only frees. Guarded by the device's lock, which
 * is not held across a driver call. */
#ifndef PLEAT_VMM_ASYNC_POOL_STATE_H
#define PLEAT_VMM_ASYNC_POOL_STATE_H

#include "vmm/async_pool.h"
#include "vmm/device_state.h"

enum { PL_ASYNC_POOL_HANDLES = 2 };

struct pl_async_pool {
    pl_device *dev;                            /* const */
    bool has_counts;                           /* const: the driver tells what it holds */
    uint64_t keep_bytes;                       /* const */
    cu_mempool handles[PL_ASYNC_POOL_HANDLES]; /* lock */
    unsigned n_handles;                        /* lock: allocations are of the last one */
    uint64_t max_bytes;                        /* lock: the driver's, of the last one; 0 = none */
    uint64_t limit_bytes;                      /* lock */
    uint64_t live_bytes;                       /* lock: as asked for */
    size_t n_live;                             /* lock: blocks */
    uint64_t n_begun, n_noted;                 /* lock: numbers of readings */
    _Atomic uint64_t held_bytes;               /* atomic; written under the lock */
    pl_stream *own_stream;                     /* lock: NULL until needed */
    cu_stream own_handle;                      /* lock */
};

/* async_pool_held.c. Adds the driver's figure to *sum; false: it does not tell. */
bool pl_async_pool_attribute(const pl_async_pool *pool, cu_mempool handle, int attribute,
                             uint64_t *sum);
void pl_async_pool_note_held_locked(pl_async_pool *pool, uint64_t held_bytes);
/* Copies the handles; returns how many. */
unsigned pl_async_pool_handles(pl_async_pool *pool, cu_mempool handles[PL_ASYNC_POOL_HANDLES]);
/* Ask what is held and note it. Inside a scope. A reading that fails changes nothing. */
void pl_async_pool_observe(pl_async_pool *pool);

/* async_pool.c. One pool of the driver; inside a scope. A refused maximum is tried without:
 * *max_bytes is what it has. The rules of reuse are the driver's defaults, all of them on. */
pleat_status pl_async_pool_make_handle(pl_device *dev, uint64_t keep_bytes, uint64_t *max_bytes,
                                       cu_mempool *out);
/* Tried once more if it is refused. */
bool pl_async_pool_destroy_handle(pl_device *dev, cu_mempool handle);

#endif
