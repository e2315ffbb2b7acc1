/* async_pool_alloc.c - allocations from the driver's own pool, and their frees.
 *
 * pleat keeps the limits that the driver does not: an allocation that grew the pool above the limit
 * is undone, and the growth as well. Driver calls run inside a scope. A stream under capture is
 * refused before the first call. */
#include "vmm/async/async_pool_state.h"

/* The conditions that an allocation of `bytes` meets. */
typedef struct terms {
    cu_mempool handle;
    uint64_t limit_bytes;
    uint64_t held_bytes;
    bool is_over; /* the limit has no room for the request, whatever is free */
} terms;

static terms read_terms(pl_async_pool *pool, uint64_t bytes)
{
    pl_lock_acquire(&pool->dev->lock);
    terms t = { .handle = pool->handles[pool->n_handles - 1],
                .limit_bytes = pool->limit_bytes,
                .held_bytes = pl_async_pool_held_bytes(pool) };
    t.is_over = t.limit_bytes != 0 &&
                (bytes > t.limit_bytes || pool->live_bytes > t.limit_bytes - bytes);
    pl_lock_release(&pool->dev->lock);
    return t;
}

static void count_live(pl_async_pool *pool, uint64_t bytes)
{
    pl_lock_acquire(&pool->dev->lock);
    pool->live_bytes += bytes;
    pool->n_live++;
    pl_lock_release(&pool->dev->lock);
}

static void count_freed(pl_async_pool *pool, uint64_t bytes)
{
    pl_lock_acquire(&pool->dev->lock);
    pool->live_bytes -= bytes;
    pool->n_live--;
    pl_lock_release(&pool->dev->lock);
}

/* Free in stream order; a refused free is tried once more. */
static cu_result free_in_order(const pl_async_pool *pool, pleat_devptr ptr, const pl_stream *stream)
{
    cu_result result = pl_cu_mem_free_async(pool->dev->drv, ptr, stream->handle);
    return result == CU_SUCCESS ? result
                                : pl_cu_mem_free_async(pool->dev->drv, ptr, stream->handle);
}

/* Undo an allocation that grew the pool above its limit, and give the growth back. If the driver
 * does not take the memory back, it counts as live until the end. */
static void undo_alloc(pl_async_pool *pool, pleat_devptr ptr, size_t bytes, const pl_stream *stream,
                       const terms *before)
{
    pl_device *dev = pool->dev;
    cu_result freed = free_in_order(pool, ptr, stream);
    pl_device_undo(dev, pl_driver_failure(freed));
    if (freed == CU_SUCCESS) {
        count_freed(pool, bytes);
    }
    pl_count_add(&dev->n.host_syncs, 1);
    pl_device_undo(dev, pl_driver_failure(pl_cu_stream_synchronize(dev->drv, stream->handle)));
    cu_result result = pl_cu_pool_trim(dev->drv, before->handle, before->held_bytes);
    pl_device_undo(dev, pl_driver_failure(result));
    pl_async_pool_observe(pool);
}

/* Inside a scope. */
static pleat_status alloc_inside(pl_async_pool *pool, size_t bytes, pl_stream *stream,
                                 pleat_devptr *out)
{
    pl_driver *drv = pool->dev->drv;
    terms before = read_terms(pool, bytes);
    cu_devptr ptr = 0;
    pleat_status st = pl_stream_ready(stream);
    if (st != PLEAT_OK) {
        return st;
    }
    if (before.is_over) {
        return PLEAT_ENOMEM_DEVICE;
    }
    cu_result result = pl_cu_pool_alloc_async(drv, &ptr, bytes, before.handle, stream->handle);
    if (result != CU_SUCCESS) {
        return pl_driver_status(result);
    }
    count_live(pool, bytes);
    pl_async_pool_observe(pool);
    terms after = read_terms(pool, 0);
    bool is_new_limit = after.limit_bytes != before.limit_bytes; /* set meanwhile */
    if (after.limit_bytes != 0 && after.held_bytes > after.limit_bytes &&
        (is_new_limit || after.held_bytes > before.held_bytes)) {
        before.held_bytes = before.held_bytes < after.limit_bytes ? before.held_bytes
                                                                  : after.limit_bytes;
        undo_alloc(pool, ptr, bytes, stream, &before);
        return PLEAT_ENOMEM_DEVICE;
    }
    *out = ptr;
    return PLEAT_OK;
}

pleat_status pl_async_pool_alloc(pl_async_pool *pool, size_t bytes, pl_stream *stream,
                                 pleat_devptr *out)
{
    pl_scope scope;
    if (bytes == 0) {
        return PLEAT_EINVAL;
    }
    pleat_status st = pl_scope_begin(pool->dev, &scope);
    if (st != PLEAT_OK) {
        return st;
    }
    st = alloc_inside(pool, bytes, stream, out);
    pl_scope_end(pool->dev, &scope);
    return st;
}

pleat_status pl_async_pool_free(pl_async_pool *pool, pleat_devptr ptr, size_t bytes,
                                pl_stream *stream)
{
    pl_device *dev = pool->dev;
    pl_scope scope;
    pleat_status st = pl_scope_begin(dev, &scope);
    if (st != PLEAT_OK) {
        return st;
    }
    st = pl_stream_ready(stream);
    if (st == PLEAT_OK) {
        st = pl_driver_failure(free_in_order(pool, ptr, stream));
    }
    if (st == PLEAT_OK) {
        count_freed(pool, bytes);
        if (!pool->has_counts) {
            pl_async_pool_observe(pool);
        }
    }
    pl_scope_end(dev, &scope);
    return st;
}

pleat_status pl_async_pool_free_now(pl_async_pool *pool, pleat_devptr ptr, size_t bytes)
{
    pl_device *dev = pool->dev;
    pl_scope scope;
    pleat_status st = pl_scope_begin(dev, &scope);
    if (st != PLEAT_OK) {
        return st;
    }
    cu_result result = pl_cu_mem_free(dev->drv, ptr);
    if (result != CU_SUCCESS) {
        result = pl_cu_mem_free(dev->drv, ptr);
    }
    if (result == CU_SUCCESS) {
        count_freed(pool, bytes);
        pl_async_pool_observe(pool);
    }
    pl_scope_end(dev, &scope);
    return pl_driver_failure(result);
}
