/* inside.c - who may change the blocks of a pool: requests side by side, a restore alone.
 *
 * A request is inside a pool from routing to return. A restore waits until no request is inside,
 * closes the pool, and opens the pool again. Meanwhile new requests wait, holding the pool but no
 * lock. A callback of a request may make further calls from inside the pool. Such a thread must not
 * wait for a waiting restore, since the restore waits for that thread. Nor may it restore a pool
 * while other threads are inside. */
#include "api/pool/pool_state.h"
#include "vmm/base/deadline.h"

pl_pool *pl_pools_enter(pl_pools *pools, pleat_pool_id id)
{
    pl_lock_acquire(&pools->lock);
    pl_pool *pool = pl_pools_find(pools, id);
    pool = pool && pool->in ? pool : NULL;
    if (pool) {
        pool->n_holds++;
        pl_pool_go_in(pools, pool);
    }
    pl_lock_release(&pools->lock);
    return pool;
}

enum { LEAST_WAIT_MS = 20 }; /* for requests that are in the middle of a call of the driver */

/* Under the lock. */
static pleat_status close_held(pl_pools *pools, pl_pool *pool, uint32_t wait_ms)
{
    wait_ms = wait_ms < LEAST_WAIT_MS ? LEAST_WAIT_MS : wait_ms;
    pl_deadline_begin();
    pool->n_closers++;
    while (pool->is_closed || (pool->n_inside > 0 && pl_pools_inside_here == 0)) {
        uint32_t left = pool->is_closed ? LEAST_WAIT_MS : pl_deadline_left(wait_ms);
        if (left == 0) {
            break;
        }
        pl_lock_wait_for(&pools->lock, &pools->turned, left);
    }
    pool->n_closers--;
    pool->is_closed = pool->n_inside == 0; /* if not: no restore runs while somebody is inside */
    if (!pool->is_closed) {
        pl_cond_broadcast(&pools->turned);
    }
    return pool->is_closed ? PLEAT_OK : PLEAT_EBUSY;
}

pleat_status pl_pools_close(pl_pools *pools, pleat_pool_id id, uint32_t wait_ms, pl_pool **out)
{
    pl_lock_acquire(&pools->lock);
    pl_pool *pool = pl_pools_find(pools, id);
    pool = pool && pool->in ? pool : NULL;
    if (pool) {
        pool->n_holds++;
    }
    pleat_status st = pool ? close_held(pools, pool, wait_ms) : PLEAT_EPOOL;
    pl_lock_release(&pools->lock);
    if (pool && st != PLEAT_OK) {
        pl_pool_let_go(pools, pool);
    }
    *out = st == PLEAT_OK ? pool : NULL;
    return st;
}

void pl_pool_reopen(pl_pools *pools, pl_pool *pool)
{
    pl_lock_acquire(&pools->lock);
    pool->is_closed = false;
    pl_cond_broadcast(&pools->turned);
    pl_lock_release(&pools->lock);
    pl_pool_let_go(pools, pool);
}
