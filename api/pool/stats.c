/* stats.c - bytes that private pools hold and have held, read at one moment under the table's lock.
 * A pool made again under an old name continues its old counts. */
#include "api/pool/pool_state.h"

/* Adds the counts of the pool's earlier lives. */
static void add_past(pleat_stat *now, const pleat_stat *past)
{
    now->allocated += past->allocated;
    now->freed += past->freed;
    now->peak = now->peak > past->peak ? now->peak : past->peak;
}

void pl_pool_read_reserved(const pl_pools *pools, const pl_pool *pool,
                           pleat_stat out[PLEAT_N_SIZES])
{
    const pl_gpu *gpu = pools->gpu;
    for (unsigned i = 0; i < PLEAT_N_SIZES; i++) {
        out[i] = (pleat_stat){ 0 };
    }
    if (pool->in) {
        gpu->ops->pools->reserved(gpu->allocator, pool->in, out);
    }
    for (unsigned i = 0; i < PLEAT_N_SIZES; i++) {
        add_past(&out[i], &pool->past[i]);
    }
}

static void read_figures(const pl_pools *pools, const pl_pool *pool, pl_pool_figures *out)
{
    out->id = pool->id;
    pl_pool_read_reserved(pools, pool, out->reserved);
}

uint64_t pl_pools_held(pl_pools *pools, pleat_pool_id *largest)
{
    uint64_t held = 0;
    uint64_t most = 0;
    *largest = (pleat_pool_id){ 0, 0 };
    pl_lock_acquire(&pools->lock);
    for (const pl_pool *pool = pools->oldest; pool; pool = pool->next) {
        pleat_stat now[PLEAT_N_SIZES];
        pl_pool_read_reserved(pools, pool, now);
        held += now[PLEAT_SIZES_ALL].current;
        if (now[PLEAT_SIZES_ALL].current > most) {
            most = now[PLEAT_SIZES_ALL].current;
            *largest = pool->id;
        }
    }
    pl_lock_release(&pools->lock);
    return held;
}

pleat_status pl_pools_read(pl_pools *pools, pl_pool_figures **out, size_t *n)
{
    unsigned n_told = 0;
    pleat_status st = PLEAT_OK;
    *n = 0;
    *out = NULL;
    pl_lock_acquire(&pools->lock);
    if (pools->n_pools > 0) {
        *out = pl_meta_alloc(&pools->meta, pools->n_pools * sizeof **out);
        st = *out ? PLEAT_OK : PLEAT_ENOMEM_HOST;
    }
    for (pl_pool *pool = *out ? pools->gone_last : NULL; pool && n_told < PL_POOLS_GONE_TOLD;
         pool = pool->gone_previous, n_told++) {
        read_figures(pools, pool, &(*out)[(*n)++]);
    }
    for (pl_pool *pool = *out ? pools->newest : NULL; pool; pool = pool->previous) {
        if (pool->in) {
            read_figures(pools, pool, &(*out)[(*n)++]);
        }
    }
    pl_lock_release(&pools->lock);
    return st;
}

void pl_pools_drop(pl_pools *pools, pl_pool_figures *figures)
{
    if (figures) {
        pl_lock_acquire(&pools->lock);
        pl_meta_free(&pools->meta, figures);
        pl_lock_release(&pools->lock);
    }
}

/* Searches from the first pool, the last, or the pool read last: reading all pools in order stays
 * fast. */
static pl_pool *find_at(const pl_pools *pools, unsigned index)
{
    unsigned at = 0;
    pl_pool *pool = pools->oldest;
    if (pools->seen && index >= pools->seen_index / 2) {
        at = pools->seen_index;
        pool = pools->seen;
    }
    if (index >= at && pools->n_pools - 1 - index < index - at) {
        at = pools->n_pools - 1;
        pool = pools->newest;
    }
    while (at != index) {
        pl_lock_touch(1);
        pool = at < index ? pool->next : pool->previous;
        at = at < index ? at + 1 : at - 1;
    }
    return pool;
}

bool pl_pools_read_one(pl_pools *pools, unsigned index, pleat_pool_id *id,
                       pleat_stat reserved[PLEAT_N_SIZES])
{
    pl_lock_acquire(&pools->lock);
    pl_pool *pool = index < pools->n_pools ? find_at(pools, index) : NULL;
    if (pool) {
        pools->seen = pool;
        pools->seen_index = index;
        *id = pool->id;
        pl_pool_read_reserved(pools, pool, reserved);
    }
    pl_lock_release(&pools->lock);
    return pool != NULL;
}
