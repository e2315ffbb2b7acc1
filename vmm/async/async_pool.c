/* async_pool.c - makes and destroys the driver's own pool, and the pool's own stream. */
#include "vmm/async/async_pool_state.h"

static pleat_status refuse_device(const pl_device *dev)
{
    static const pl_entry needed[] = { PL_CU_pool_create,   PL_CU_pool_destroy,     PL_CU_pool_set,
                                       PL_CU_pool_trim,     PL_CU_pool_alloc_async, PL_CU_pool_get,
                                       PL_CU_mem_free_async };
    int value = 0;
    bool has_pools = pl_cu_device_attribute(dev->drv, &value, CU_ATTR_MEMPOOLS_SUPPORTED,
                                            dev->gpu) == CU_SUCCESS &&
                     value != 0;
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        has_pools = has_pools && pl_driver_has(dev->drv, needed[i]);
    }
    if (!has_pools) {
        pl_driver_clear_error();
        pl_driver_set_detail("device %d or its driver has no memory pools", dev->ordinal);
        return PLEAT_ENOVMM;
    }
    return PLEAT_OK;
}

bool pl_async_pool_destroy_handle(pl_device *dev, cu_mempool handle)
{
    return pl_cu_pool_destroy(dev->drv, handle) == CU_SUCCESS ||
           pl_cu_pool_destroy(dev->drv, handle) == CU_SUCCESS;
}

pleat_status pl_async_pool_make_handle(pl_device *dev, uint64_t keep_bytes, uint64_t *max_bytes,
                                       cu_mempool *out)
{
    cu_mempool_props props = { .type = CU_ALLOCATION_PINNED, .location = dev->prop.location };
    cu_mempool handle = NULL;
    props.max_bytes = *max_bytes;
    cu_result result = pl_cu_pool_create(dev->drv, &handle, &props);
    if (result == CU_INVALID_VALUE && *max_bytes != 0) {
        props.max_bytes = 0;
        result = pl_cu_pool_create(dev->drv, &handle, &props);
    }
    if (result != CU_SUCCESS) {
        return pl_driver_failure(result);
    }
    result = pl_cu_pool_set(dev->drv, handle, CU_POOL_RELEASE_THRESHOLD, &keep_bytes);
    if (result == CU_SUCCESS && dev->n_access > 1) { /* the device itself always has access */
        result = pl_cu_pool_set_access(dev->drv, handle, dev->access + 1, dev->n_access - 1);
    }
    if (result != CU_SUCCESS) {
        if (!pl_async_pool_destroy_handle(dev, handle)) {
            pl_device_lose(dev);
        }
        return pl_driver_failure(result);
    }
    *max_bytes = props.max_bytes;
    *out = handle;
    return PLEAT_OK;
}

static pl_async_pool *new_pool(pl_device *dev)
{
    pl_lock_acquire(&dev->lock);
    pl_async_pool *pool = pl_meta_calloc(&dev->meta, 1, sizeof(*pool));
    pl_lock_release(&dev->lock);
    return pool;
}

static void delete_pool(pl_device *dev, pl_async_pool *pool)
{
    pl_lock_acquire(&dev->lock);
    pl_meta_free(&dev->meta, pool);
    pl_lock_release(&dev->lock);
}

pleat_status pl_async_pool_create(pl_device *dev, uint64_t limit_bytes, uint64_t keep_bytes,
                                  pl_async_pool **out)
{
    pleat_status st = refuse_device(dev);
    if (st != PLEAT_OK) {
        return st;
    }
    pl_async_pool *pool = new_pool(dev);
    if (pool == NULL) {
        return PLEAT_ENOMEM_HOST;
    }
    pool->dev = dev;
    pool->keep_bytes = keep_bytes;
    pool->limit_bytes = limit_bytes;
    pool->max_bytes = limit_bytes;
    pl_scope scope;
    st = pl_scope_begin(dev, &scope);
    if (st != PLEAT_OK) {
        goto undo_new;
    }
    st = pl_async_pool_make_handle(dev, keep_bytes, &pool->max_bytes, &pool->handles[0]);
    if (st == PLEAT_OK) {
        uint64_t held_bytes = 0;
        pool->has_counts = pl_async_pool_attribute(pool, pool->handles[0], CU_POOL_RESERVED_CURRENT,
                                                   &held_bytes);
        pl_driver_clear_error(); /* an old driver's refusal is no failure */
    }
    pl_scope_end(dev, &scope);
    if (st != PLEAT_OK) {
        goto undo_new;
    }
    pool->n_handles = 1;
    pl_count_add(&dev->n.n_pools, 1);
    *out = pool;
    return PLEAT_OK;

undo_new:
    delete_pool(dev, pool);
    return st;
}

/* Inside a scope. Returns what could not be given back. */
static size_t destroy_objects(pl_async_pool *pool)
{
    pl_device *dev = pool->dev;
    size_t n_left = 0;
    if (pool->own_stream != NULL && !pl_device_end_stream(dev, pool->own_handle)) {
        n_left++;
    }
    for (unsigned i = 0; i < pool->n_handles; i++) {
        n_left += pl_async_pool_destroy_handle(dev, pool->handles[i]) ? 0 : 1;
    }
    return n_left;
}

size_t pl_async_pool_destroy(pl_async_pool *pool)
{
    if (pool == NULL) {
        return 0;
    }
    pl_device *dev = pool->dev;
    pl_scope scope;
    bool is_inside = pl_scope_begin(dev, &scope) == PLEAT_OK ||
                     pl_scope_begin(dev, &scope) == PLEAT_OK;
    size_t n_left = pool->n_live + destroy_objects(pool);
    if (is_inside) {
        pl_scope_end(dev, &scope);
    }
    pl_lock_acquire(&dev->lock);
    pl_async_pool_note_held_locked(pool, 0);
    pl_lock_release(&dev->lock);
    pl_count_sub(&dev->n.n_pools, 1);
    delete_pool(dev, pool);
    return n_left;
}

pleat_status pl_async_pool_own_stream(pl_async_pool *pool, pl_stream **out)
{
    pl_device *dev = pool->dev;
    pl_lock_acquire(&dev->lock);
    pl_stream *stream = pool->own_stream;
    pl_lock_release(&dev->lock);
    if (stream != NULL) {
        *out = stream;
        return PLEAT_OK;
    }
    pl_scope scope;
    cu_stream handle = NULL;
    pleat_status st = pl_scope_begin(dev, &scope);
    if (st != PLEAT_OK) {
        return st;
    }
    st = pl_driver_failure(pl_cu_stream_create(dev->drv, &handle, CU_STREAM_NON_BLOCKING_FLAG));
    if (st == PLEAT_OK) {
        st = pl_stream_get(dev, handle, &stream);
    }
    bool is_ours = false;
    if (st == PLEAT_OK) {
        pl_lock_acquire(&dev->lock);
        is_ours = pool->own_stream == NULL;
        pool->own_stream = is_ours ? stream : pool->own_stream;
        pool->own_handle = is_ours ? handle : pool->own_handle;
        *out = pool->own_stream;
        pl_lock_release(&dev->lock);
    }
    if (handle != NULL && !is_ours && !pl_device_end_stream(dev, handle)) {
        pl_device_lose(dev);
    }
    pl_scope_end(dev, &scope);
    return st;
}
