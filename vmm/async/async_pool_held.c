/* async_pool_held.c - asks the driver how much a pool holds. */
#include "vmm/async/async_pool_state.h"

bool pl_async_pool_attribute(const pl_async_pool *pool, cu_mempool handle, int attribute,
                             uint64_t *sum)
{
    uint64_t value = 0;
    if (pl_cu_pool_get(pool->dev->drv, handle, attribute, &value) != CU_SUCCESS) {
        return false;
    }
    *sum += value;
    return true;
}

void pl_async_pool_note_held_locked(pl_async_pool *pool, uint64_t held_bytes)
{
    pl_lock_assert(&pool->dev->lock);
    pl_device_atomics *n = &pool->dev->n;
    uint64_t before = pl_async_pool_held_bytes(pool);
    if (held_bytes > before) {
        pl_count_add(&n->ops_alloc, 1);
        pl_count_add(&n->bytes_created, held_bytes - before);
        pl_count_add(&n->bytes_mapped, held_bytes - before);
        pl_count_add(&n->pool_bytes, held_bytes - before);
    } else if (held_bytes < before) {
        pl_count_add(&n->ops_free, 1);
        pl_count_sub(&n->pool_bytes, before - held_bytes);
    }
    atomic_store_explicit(&pool->held_bytes, held_bytes, memory_order_relaxed);
}

/* Copies the handles and returns their number. */
static unsigned copy_handles_locked(const pl_async_pool *pool,
                                    cu_mempool handles[PL_ASYNC_POOL_HANDLES])
{
    pl_lock_assert(&pool->dev->lock);
    for (unsigned i = 0; i < pool->n_handles; i++) {
        handles[i] = pool->handles[i];
    }
    return pool->n_handles;
}

unsigned pl_async_pool_handles(pl_async_pool *pool, cu_mempool handles[PL_ASYNC_POOL_HANDLES])
{
    pl_lock_acquire(&pool->dev->lock);
    unsigned n_handles = copy_handles_locked(pool, handles);
    pl_lock_release(&pool->dev->lock);
    return n_handles;
}

void pl_async_pool_observe(pl_async_pool *pool)
{
    cu_mempool handles[PL_ASYNC_POOL_HANDLES];
    uint64_t held_bytes = 0;
    bool is_read = pool->has_counts;
    pl_lock_acquire(&pool->dev->lock);
    uint64_t number = ++pool->n_begun;
    unsigned n_handles = copy_handles_locked(pool, handles);
    pl_lock_release(&pool->dev->lock);
    for (unsigned i = 0; is_read && i < n_handles; i++) {
        is_read = pl_async_pool_attribute(pool, handles[i], CU_POOL_RESERVED_CURRENT, &held_bytes);
    }
    pl_lock_acquire(&pool->dev->lock);
    if (!pool->has_counts) {
        pl_async_pool_note_held_locked(pool, pool->live_bytes);
    } else if (is_read && number > pool->n_noted) {
        pool->n_noted = number;
        pl_async_pool_note_held_locked(pool, held_bytes);
    }
    pl_lock_release(&pool->dev->lock);
}

uint64_t pl_async_pool_held_bytes(const pl_async_pool *pool)
{
    return atomic_load_explicit(&pool->held_bytes, memory_order_relaxed);
}
