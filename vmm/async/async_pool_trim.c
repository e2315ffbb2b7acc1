/* async_pool_trim.c - gives back the driver pool's free memory, and changes the limit.
 *
 * A limit above the driver's maximum needs a second pool of the driver (async_pool_state.h). No
 * lock is held across a driver call. */
#include "vmm/async/async_pool_state.h"

/* One call per pool of the driver, inside a scope. */
static cu_result trim_to(pl_async_pool *pool, uint64_t keep_bytes)
{
    cu_result result = CU_SUCCESS;
    cu_mempool handles[PL_ASYNC_POOL_HANDLES];
    unsigned n_handles = pl_async_pool_handles(pool, handles);
    for (unsigned i = 0; result == CU_SUCCESS && i < n_handles; i++) {
        bool is_last = i + 1 == n_handles;
        result = pl_cu_pool_trim(pool->dev->drv, handles[i], is_last ? keep_bytes : 0);
    }
    pl_async_pool_observe(pool);
    return result;
}

/* The driver may keep more than told, so getting below the limit may take three calls. */
static cu_result trim_inside(pl_async_pool *pool, uint64_t keep_bytes)
{
    enum { STEP_BYTES = 32 << 20 };
    uint64_t lower = keep_bytes > STEP_BYTES ? keep_bytes - STEP_BYTES : 0;
    const uint64_t steps[] = { keep_bytes, lower, 0 };
    cu_result result = CU_SUCCESS;
    pl_async_pool_observe(pool);
    for (size_t i = 0; result == CU_SUCCESS && i < sizeof(steps) / sizeof(steps[0]); i++) {
        if (pool->has_counts && pl_async_pool_held_bytes(pool) <= keep_bytes) {
            break;
        }
        result = trim_to(pool, steps[i]);
    }
    return result;
}

pleat_status pl_async_pool_trim(pl_async_pool *pool, uint64_t keep_bytes, uint64_t *released)
{
    pl_scope scope;
    pleat_status st = pl_scope_begin(pool->dev, &scope);
    if (st != PLEAT_OK) {
        return st;
    }
    uint64_t before = pl_async_pool_held_bytes(pool);
    st = pl_driver_failure(trim_inside(pool, keep_bytes));
    pl_scope_end(pool->dev, &scope);
    uint64_t after = pl_async_pool_held_bytes(pool);
    if (st == PLEAT_OK) {
        *released = before > after ? before - after : 0;
    }
    return st;
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* The pool serves no more allocations. Its memory goes now, or when its frees are over. If the
 * driver refuses the trim, a later trim gives the memory back. */
static void retire(pl_async_pool *pool, cu_mempool handle)
{
    uint64_t keep_bytes = 0;
    pl_driver *drv = pool->dev->drv;
    (void)pl_cu_pool_set(drv, handle, CU_POOL_RELEASE_THRESHOLD, &keep_bytes);
    (void)pl_cu_pool_trim(drv, handle, 0);
    pl_async_pool_observe(pool);
}

/* Adds a driver pool without a maximum. */
static pleat_status add_unbounded(pl_async_pool *pool)
{
    pl_device *dev = pool->dev;
    pl_scope scope;
    cu_mempool handle = NULL;
    uint64_t max_bytes = 0;
    pleat_status st = pl_scope_begin(dev, &scope);
    if (st != PLEAT_OK) {
        return st;
    }
    st = pl_async_pool_make_handle(dev, pool->keep_bytes, &max_bytes, &handle);
    cu_mempool retired = NULL;
    bool is_ours = false;
    if (st == PLEAT_OK) {
        pl_lock_acquire(&dev->lock);
        is_ours = pool->n_handles < PL_ASYNC_POOL_HANDLES;
        if (is_ours) {
            retired = pool->handles[pool->n_handles - 1];
            pool->handles[pool->n_handles++] = handle;
            pool->max_bytes = 0;
        }
        pl_lock_release(&dev->lock);
    }
    if (is_ours) {
        retire(pool, retired);
    } else if (handle != NULL && !pl_async_pool_destroy_handle(dev, handle)) {
        pl_device_lose(dev);
    }
    pl_scope_end(dev, &scope);
    return st;
}

pleat_status pl_async_pool_set_limit(pl_async_pool *pool, uint64_t limit_bytes)
{
    pl_device *dev = pool->dev;
    pl_lock_acquire(&dev->lock);
    uint64_t max_bytes = pool->max_bytes;
    pl_lock_release(&dev->lock);
    bool is_lifted = max_bytes != 0 && (limit_bytes == 0 || limit_bytes > max_bytes);
    pleat_status st = is_lifted ? add_unbounded(pool) : PLEAT_OK;
    if (st != PLEAT_OK) {
        return st;
    }
    pl_lock_acquire(&dev->lock);
    if (limit_bytes != 0 && pl_async_pool_held_bytes(pool) > limit_bytes) {
        st = PLEAT_ENOMEM_DEVICE;
    } else {
        pool->limit_bytes = limit_bytes;
    }
    pl_lock_release(&dev->lock);
    return st;
}
