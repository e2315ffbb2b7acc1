/* pool.c - the table of private pools: makes pools, and removes unused pools.
 *
 * Upholds I2, I4 and I5. Under the table's lock (rank 10) the allocator's private pools are opened
 * and read, and histories learn names; memory is released without the lock. */
#include "api/pool/pool_state.h"

_Thread_local unsigned pl_pools_inside_here;

/* ---- by name ---- */

/* Frameworks count upwards in one half of the name, or in both. */
static pl_pool **head_of(const pl_pools *pools, pleat_pool_id id)
{
    uint64_t mixed = (id.first * UINT64_C(0x9E3779B97F4A7C15) ^ id.second) *
                     UINT64_C(0xD6E8FEB86659FD93);
    return &pools->heads[(mixed >> 32) & (PL_POOLS_HEADS - 1)];
}

pl_pool *pl_pools_find(const pl_pools *pools, pleat_pool_id id)
{
    pl_pool *pool = pools->heads ? *head_of(pools, id) : NULL;
    while (pool && (pool->id.first != id.first || pool->id.second != id.second)) {
        pl_lock_touch(1);
        pool = pool->head_next;
    }
    return pool;
}

static void enter_head(pl_pools *pools, pl_pool *pool)
{
    pl_pool **head = head_of(pools, pool->id);
    pool->head_next = *head;
    if (*head) {
        (*head)->head_previous = pool;
    }
    *head = pool;
}

static void leave_head(pl_pools *pools, const pl_pool *pool)
{
    *(pool->head_previous ? &pool->head_previous->head_next
                          : head_of(pools, pool->id)) = pool->head_next;
    if (pool->head_next) {
        pool->head_next->head_previous = pool->head_previous;
    }
}

static pl_pool *add_pool(pl_pools *pools, pleat_pool_id id)
{
    if (!pools->heads) {
        pools->heads = pl_meta_calloc(&pools->meta, PL_POOLS_HEADS, sizeof *pools->heads);
    }
    pl_pool *pool = pools->heads ? pl_meta_calloc(&pools->meta, 1, sizeof *pool) : NULL;
    if (!pool) {
        return NULL;
    }
    pool->id = id;
    pool->number = pools->n_numbers++;
    enter_head(pools, pool);
    pool->previous = pools->newest;
    *(pools->newest ? &pools->newest->next : &pools->oldest) = pool;
    pools->newest = pool;
    pools->n_pools++;
    return pool;
}

/* The pool has already left the order of first use. */
static void forget_seen(pl_pools *pools, const pl_pool *pool)
{
    if (pools->seen == pool) {
        pools->seen = pool->next;
    } else if (pools->seen && pools->seen->number > pool->number) {
        pools->seen_index--;
    }
}

static void forget_pool(pl_pools *pools, pl_pool *pool)
{
    *(pool->previous ? &pool->previous->next : &pools->oldest) = pool->next;
    *(pool->next ? &pool->next->previous : &pools->newest) = pool->previous;
    pools->n_pools--;
    leave_head(pools, pool);
    forget_seen(pools, pool);
    pl_meta_free(&pools->meta, pool);
}

/* ---- coming and going ---- */

static void unqueue_gone(pl_pools *pools, pl_pool *pool)
{
    pl_pool *earlier = pool->gone_previous;
    pl_pool *later = pool->gone_next;
    *(earlier ? &earlier->gone_next : &pools->gone_first) = later;
    *(later ? &later->gone_previous : &pools->gone_last) = earlier;
    pool->gone_next = NULL;
    pool->gone_previous = NULL;
    pools->n_gone--;
}

/* The pool's memory is no longer its own. */
static void queue_gone(pl_pools *pools, pl_pool *pool)
{
    pool->in = NULL;
    pool->gone_previous = pools->gone_last;
    *(pools->gone_last ? &pools->gone_last->gone_next : &pools->gone_first) = pool;
    pools->gone_last = pool;
    if (++pools->n_gone > PL_POOLS_GONE) {
        pl_pool *first = pools->gone_first;
        unqueue_gone(pools, first);
        forget_pool(pools, first);
    }
}

/* Makes the pool's memory and its name in histories. */
static pleat_status open_private(pl_pools *pools, pl_pool *pool)
{
    pl_gpu *gpu = pools->gpu;
    if (pool->in) {
        return PLEAT_OK;
    }
    pleat_status st = gpu->ops->pools->open(gpu->allocator, &pool->in);
    if (st != PLEAT_OK) {
        return st;
    }
    st = pl_history_name_pool(&gpu->history, pool->in, pool->id);
    if (st != PLEAT_OK) {
        gpu->ops->pools->release(gpu->allocator, pool->in);
        pool->in = NULL;
    }
    return st;
}

pleat_status pl_pools_open_meta(pl_pools *pools)
{
    pleat_status st = pools->has_meta ? PLEAT_OK : pl_meta_init(&pools->meta);
    pools->has_meta = st == PLEAT_OK;
    return st;
}

pleat_status pl_pools_open(pl_pools *pools, pleat_pool_id id, pl_pool **out)
{
    pl_pool *known = pl_pools_find(pools, id);
    pl_pool *pool = known ? known : add_pool(pools, id);
    bool was_gone = known && !known->in;
    pleat_status st = pool ? open_private(pools, pool) : PLEAT_ENOMEM_HOST;
    if (st == PLEAT_OK && was_gone) {
        unqueue_gone(pools, pool);
    } else if (st != PLEAT_OK && pool && !known) {
        forget_pool(pools, pool);
    }
    *out = pool;
    return st;
}

unsigned pl_pools_count_users(pl_pools *pools, pleat_pool_id id)
{
    pl_lock_acquire(&pools->lock);
    const pl_pool *pool = pl_pools_find(pools, id);
    unsigned n = pool && pool->in ? pool->n_users : 0;
    pl_lock_release(&pools->lock);
    return n;
}

/* If the pool is unused now, returns its memory, to be released without the lock. */
static pl_keeper *part_if_unused(pl_pools *pools, pl_pool *pool)
{
    pl_keeper *in = pool->in;
    if (pool->n_users > 0 || pool->n_holds > 0 || !in) {
        return NULL;
    }
    pleat_stat now[PLEAT_N_SIZES];
    pl_pool_read_reserved(pools, pool, now);
    for (unsigned i = 0; i < PLEAT_N_SIZES; i++) {
        pool->past[i] = now[i];
        pool->past[i].freed += now[i].current;
        pool->past[i].current = 0;
    }
    queue_gone(pools, pool);
    pl_history_forget_pool(&pools->gpu->history, in);
    return in;
}

static void release_private(pl_pools *pools, pl_keeper *in)
{
    if (in) {
        pl_lock_assert_none();
        pools->gpu->ops->pools->release(pools->gpu->allocator, in);
    }
}

pl_keeper *pl_pool_private(const pl_pool *pool)
{
    return pool->in;
}

/* A thread already inside a pool waits for running restores only: others may wait for the thread.
 * */
void pl_pool_go_in(pl_pools *pools, pl_pool *pool)
{
    while (pool->is_closed || (pool->n_closers > 0 && pl_pools_inside_here == 0)) {
        pl_lock_wait(&pools->lock, &pools->turned);
    }
    pool->n_inside++;
    pl_pools_inside_here++;
}

static void let_go(pl_pools *pools, pl_pool *pool, bool goes_out)
{
    pl_lock_acquire(&pools->lock);
    if (goes_out) {
        pool->n_inside--;
        pl_pools_inside_here--;
        if (pool->n_inside == 0) {
            pl_cond_broadcast(&pools->turned);
        }
    }
    pool->n_holds--;
    pl_keeper *in = part_if_unused(pools, pool);
    pl_lock_release(&pools->lock);
    release_private(pools, in);
}

void pl_pool_let_go(pl_pools *pools, pl_pool *pool)
{
    let_go(pools, pool, false);
}

void pl_pool_leave(pl_pools *pools, pl_pool *pool)
{
    let_go(pools, pool, true);
}

pleat_status pl_pools_add_user(pl_pools *pools, pleat_pool_id id)
{
    pl_pool *pool = NULL;
    pl_lock_acquire(&pools->lock);
    pleat_status st = pl_pools_open_meta(pools);
    st = st == PLEAT_OK ? pl_pools_open(pools, id, &pool) : st;
    if (st == PLEAT_OK) {
        pool->n_users++;
    }
    pl_lock_release(&pools->lock);
    return st;
}

/* PLEAT_OK, or the reason of a refusal; *in: memory to be released without the lock. */
static pleat_status release_locked(pl_pools *pools, pleat_pool_id id, pl_keeper **in)
{
    pl_pool *pool = pl_pools_find(pools, id);
    if (!pool || pool->n_users == 0) {
        return PLEAT_EPOOL;
    }
    if (pool->n_users == 1 && pool->n_routes > 0) {
        return PLEAT_EBUSY;
    }
    pool->n_users--;
    *in = part_if_unused(pools, pool);
    return PLEAT_OK;
}

pleat_status pl_pools_release(pl_pools *pools, pleat_pool_id id)
{
    pl_keeper *in = NULL;
    pl_lock_acquire(&pools->lock);
    pleat_status st = release_locked(pools, id, &in);
    pl_lock_release(&pools->lock);
    release_private(pools, in);
    return st;
}
