/* live.c - public calls about a pool's users, its memory, and its live blocks.
 *
 * Holds the table's lock (rank 10) while reading the table, and no lock while comparing. */
#include <stdlib.h>

#include "api/pool/pool_state.h"

/* ---- one pool ---- */

typedef uint64_t read_fn(pl_pools *pools, pleat_pool_id id); /* 0: no such pool */

static uint64_t count_users(pl_pools *pools, pleat_pool_id id)
{
    return pl_pools_count_users(pools, id);
}

static uint64_t count_held(pl_pools *pools, pleat_pool_id id)
{
    pleat_stat now[PLEAT_N_SIZES] = { { 0 } };
    pl_lock_acquire(&pools->lock);
    const pl_pool *pool = pl_pools_find(pools, id);
    if (pool) {
        pl_pool_read_reserved(pools, pool, now);
    }
    pl_lock_release(&pools->lock);
    return now[PLEAT_SIZES_ALL].current;
}

static uint64_t count_gone(pl_pools *pools, pleat_pool_id id)
{
    uint64_t n = 0;
    pl_lock_acquire(&pools->lock);
    const pl_pool *pool = pl_pools_find(pools, id);
    if (pool && pool->in) {
        n = pools->gpu->ops->pools->gone(pools->gpu->allocator, pool->in);
    }
    pl_lock_release(&pools->lock);
    return n;
}

static pleat_status read_pool(pleat handle, int device, pleat_pool_id id, read_fn *count,
                              uint64_t *out)
{
    pl_gpu *gpu = NULL;
    pl_use use = pl_use_enter(handle);
    pleat_status st = pl_pools_find_gpu(use, device, &gpu);
    if (st == PLEAT_OK) {
        *out = gpu ? count(&gpu->pools, id) : 0;
    }
    if (use.instance) {
        pl_use_leave(use);
    }
    return st;
}

pleat_status pleat_pool_users(pleat handle, int device, pleat_pool_id id, unsigned *users)
{
    uint64_t n;
    if (!users) {
        return pl_error_set(PLEAT_EINVAL, 0, "pleat_pool_users: an out-parameter is NULL");
    }
    pleat_status st = read_pool(handle, device, id, count_users, &n);
    if (st == PLEAT_OK) {
        *users = (unsigned)n;
    }
    return st;
}

pleat_status pleat_pool_held(pleat handle, int device, pleat_pool_id id, uint64_t *bytes)
{
    if (!bytes) {
        return pl_error_set(PLEAT_EINVAL, 0, "pleat_pool_held: an out-parameter is NULL");
    }
    return read_pool(handle, device, id, count_held, bytes);
}

pleat_status pleat_pool_gone(pleat handle, int device, pleat_pool_id id, uint64_t *captures)
{
    if (!captures) {
        return pl_error_set(PLEAT_EINVAL, 0, "pleat_pool_gone: an out-parameter is NULL");
    }
    return read_pool(handle, device, id, count_gone, captures);
}

/* ---- comparing ---- */

static int by_value(const void *a, const void *b)
{
    pleat_devptr x = *(const pleat_devptr *)a;
    pleat_devptr y = *(const pleat_devptr *)b;
    return (x > y) - (x < y);
}

/* The lowest address in only one set; 0 if both are equal. */
static pleat_devptr find_odd(const pleat_devptr *expected, size_t n, const pl_roster *live)
{
    pl_roster_cursor c = pl_roster_begin(live);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && expected[i] == expected[i - 1]) {
            continue;
        }
        const pl_roster_block *block = pl_roster_at(&c);
        if (!block || block->base != expected[i]) {
            return block && block->base < expected[i] ? block->base : expected[i];
        }
        pl_roster_next(&c);
    }
    return pl_roster_at(&c) ? pl_roster_at(&c)->base : 0;
}

typedef struct comparison {
    const pleat_devptr *addresses;
    size_t n;
    bool is_same;
    pleat_devptr odd;
} comparison;

/* A sorted copy; NULL: no host memory. At least one element is allocated. */
static pleat_devptr *sort_copy(pl_pools *pools, const comparison *c)
{
    size_t n = c->n > 0 ? c->n : 1;
    pl_lock_acquire(&pools->lock);
    pleat_devptr *sorted = n <= SIZE_MAX / sizeof *sorted
                               ? pl_meta_alloc(&pools->meta, n * sizeof *sorted)
                               : NULL;
    pl_lock_release(&pools->lock);
    for (size_t i = 0; sorted && i < c->n; i++) {
        sorted[i] = c->addresses[i];
    }
    if (sorted && c->n > 1) {
        qsort(sorted, c->n, sizeof *sorted, by_value);
    }
    return sorted;
}

static pleat_status compare_in(pl_gpu *gpu, pl_pool *pool, comparison *c)
{
    pl_roster live;
    pl_pools *pools = &gpu->pools;
    pleat_devptr *sorted = sort_copy(pools, c);
    if (!sorted) {
        return PLEAT_ENOMEM_HOST;
    }
    pleat_status st = gpu->ops->pools->save(gpu->allocator, pool->in, &live);
    if (st == PLEAT_OK) {
        bool has_null = c->n > 0 &&
                        sorted[0] == 0; /* no block is at 0, and as a result 0 means equal sets */
        c->odd = find_odd(sorted, c->n, &live);
        c->is_same = c->odd == 0 && !has_null;
        gpu->ops->pools->drop_roster(gpu->allocator, &live);
    }
    pl_lock_acquire(&pools->lock);
    pl_meta_free(&pools->meta, sorted);
    pl_lock_release(&pools->lock);
    return st;
}

static pleat_status compare(pl_gpu *gpu, pleat_pool_id id, comparison *c)
{
    if (!gpu->ops->pools) {
        return PLEAT_ENOTSUP;
    }
    pl_pool *pool = pl_pools_enter(&gpu->pools, id);
    if (!pool) {
        return PLEAT_EPOOL;
    }
    pleat_status st = compare_in(gpu, pool, c);
    pl_pool_leave(&gpu->pools, pool);
    return st;
}

pleat_status pleat_pool_compare(pleat handle, int device, pleat_pool_id id,
                                const pleat_devptr *addresses, size_t n, bool *is_same,
                                pleat_devptr *odd)
{
    comparison c = { .addresses = addresses, .n = n };
    pl_gpu *gpu = NULL;
    if (!is_same || (!addresses && n > 0)) {
        return pl_error_set(PLEAT_EINVAL, 0, "pleat_pool_compare: an argument is NULL");
    }
    pl_use use = pl_use_enter(handle);
    pleat_status st = pl_pools_find_gpu(use, device, &gpu);
    if (st == PLEAT_OK) {
        st = gpu ? compare(gpu, id, &c) : PLEAT_EPOOL;
        if (st != PLEAT_OK) {
            pl_pools_refuse(device, id, st, pleat_status_text(st));
        }
    }
    if (st == PLEAT_OK) {
        *is_same = c.is_same;
        if (odd) {
            *odd = c.odd;
        }
    }
    if (use.instance) {
        pl_use_leave(use);
    }
    return st;
}
