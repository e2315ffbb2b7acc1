/* pool.c - see pool.h. Holds the table's lock (rank 10), under which only the allocator's private
 * pools are opened and read, and histories learn names. */
#include "api/pool.h"

#include <pthread.h>

#include "api/instance.h"
#include "vmm/base/cancel.h"

struct pl_pool {
    pl_pool *next;                  /* lock: younger */
    pl_pool *previous;              /* lock: older */
    pl_pool *gone_next;             /* lock: gone later */
    pl_pool *gone_previous;         /* lock: gone earlier */
    pleat_pool_id id;               /* const */
    pl_private *in;                 /* lock; const while the pool is held. NULL = it is gone */
    unsigned n_users;               /* lock: begun and not released */
    unsigned n_routes;              /* lock */
    unsigned n_holds;               /* lock: requests in the middle */
    pleat_stat past[PLEAT_N_POOLS]; /* lock: what it held before it was gone last; current is 0 */
};

struct pl_route {
    pl_route *next;         /* lock: begun earlier */
    pl_pool *pool;          /* const */
    pleat_route_fn accepts; /* const; NULL = everything */
    pleat_forget_fn forget; /* const */
    void *context;          /* const */
    pthread_t thread;       /* const: who began it */
    unsigned n_calls;       /* lock: of `accepts`, running now */
    bool has_ended;         /* lock */
    bool is_left;           /* lock: its end did not wait, so the last call takes it out */
};

static _Thread_local unsigned n_filters_here; /* that this thread is inside of */

/* ---- a pool's statistics ---- */

/* What it has held in all, before and since it was made anew. */
static void add_past(pleat_stat *now, const pleat_stat *past)
{
    now->allocated += past->allocated;
    now->freed += past->freed;
    now->peak = now->peak > past->peak ? now->peak : past->peak;
}

static void read_reserved(const pl_pools *pools, const pl_pool *pool, pleat_stat out[PLEAT_N_POOLS])
{
    const pl_gpu *gpu = pools->gpu;
    for (unsigned i = 0; i < PLEAT_N_POOLS; i++) {
        out[i] = (pleat_stat){ 0 };
    }
    if (pool->in) {
        gpu->ops->private_reserved(gpu->allocator, pool->in, out);
    }
    for (unsigned i = 0; i < PLEAT_N_POOLS; i++) {
        add_past(&out[i], &pool->past[i]);
    }
}

static void read_figures(const pl_pools *pools, const pl_pool *pool, pl_pool_figures *out)
{
    out->id = pool->id;
    read_reserved(pools, pool, out->reserved);
}

uint64_t pl_pools_held(pl_pools *pools, pleat_pool_id *largest)
{
    uint64_t held = 0;
    uint64_t most = 0;
    *largest = (pleat_pool_id){ 0, 0 };
    pl_lock_acquire(&pools->lock);
    for (const pl_pool *pool = pools->oldest; pool; pool = pool->next) {
        pleat_stat now[PLEAT_N_POOLS];
        read_reserved(pools, pool, now);
        held += now[PLEAT_POOL_ALL].current;
        if (now[PLEAT_POOL_ALL].current > most) {
            most = now[PLEAT_POOL_ALL].current;
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
        *out = pl_host_alloc(&pools->host, pools->n_pools * sizeof **out);
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
        pl_host_free(&pools->host, figures);
        pl_lock_release(&pools->lock);
    }
}

/* ---- coming and going ---- */

static pl_pool *find_pool(const pl_pools *pools, pleat_pool_id id)
{
    pl_pool *pool = pools->newest;
    while (pool && (pool->id.first != id.first || pool->id.second != id.second)) {
        pool = pool->previous;
    }
    return pool;
}

static pl_pool *add_pool(pl_pools *pools, pleat_pool_id id)
{
    pl_pool *pool = pl_host_calloc(&pools->host, 1, sizeof *pool);
    if (!pool) {
        return NULL;
    }
    pool->id = id;
    pool->previous = pools->newest;
    *(pools->newest ? &pools->newest->next : &pools->oldest) = pool;
    pools->newest = pool;
    pools->n_pools++;
    return pool;
}

static void forget_pool(pl_pools *pools, pl_pool *pool)
{
    *(pool->previous ? &pool->previous->next : &pools->oldest) = pool->next;
    *(pool->next ? &pool->next->previous : &pools->newest) = pool->previous;
    pools->n_pools--;
    pl_host_free(&pools->host, pool);
}

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

/* Its memory is not its own any more. */
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

/* Have its memory, and a name for it in histories. */
static pleat_status open_private(pl_pools *pools, pl_pool *pool)
{
    pl_gpu *gpu = pools->gpu;
    if (pool->in) {
        return PLEAT_OK;
    }
    pleat_status st = gpu->ops->private_open(gpu->allocator, &pool->in);
    if (st != PLEAT_OK) {
        return st;
    }
    st = pl_history_name_pool(&gpu->history, pool->in, pool->id);
    if (st != PLEAT_OK) {
        gpu->ops->private_release(gpu->allocator, pool->in);
        pool->in = NULL;
    }
    return st;
}

/* The pool of that name with its memory, made if need be. */
static pleat_status open_pool(pl_pools *pools, pleat_pool_id id, pl_pool **out)
{
    pl_pool *known = find_pool(pools, id);
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

/* If nobody has to do with the pool any more, its memory, to be released without the lock. */
static pl_private *part_if_unused(pl_pools *pools, pl_pool *pool)
{
    pl_private *in = pool->in;
    if (pool->n_users > 0 || pool->n_holds > 0 || !in) {
        return NULL;
    }
    pleat_stat now[PLEAT_N_POOLS];
    read_reserved(pools, pool, now);
    for (unsigned i = 0; i < PLEAT_N_POOLS; i++) {
        pool->past[i] = now[i];
        pool->past[i].freed += now[i].current;
        pool->past[i].current = 0;
    }
    queue_gone(pools, pool);
    pl_history_forget_pool(&pools->gpu->history, in);
    return in;
}

static void release_private(pl_pools *pools, pl_private *in)
{
    if (in) {
        pl_lock_assert_none();
        pools->gpu->ops->private_release(pools->gpu->allocator, in);
    }
}

pl_private *pl_pool_private(const pl_pool *pool)
{
    return pool->in;
}

void pl_pool_leave(pl_pools *pools, pl_pool *pool)
{
    pl_lock_acquire(&pools->lock);
    pool->n_holds--;
    pl_private *in = part_if_unused(pools, pool);
    pl_lock_release(&pools->lock);
    release_private(pools, in);
}

/* ---- routes ---- */

static void unlink_route(pl_pools *pools, const pl_route *route)
{
    pl_route **link = &pools->routes;
    while (*link != route) {
        link = &(*link)->next;
    }
    *link = route->next;
}

static void forget_context(const pl_route *route)
{
    if (route->forget) {
        int cancel = pl_cancel_off();
        route->forget(route->context);
        pl_cancel_restore(cancel);
    }
}

/* Without the lock; the list, linked by `next`, is nobody else's. */
static void forget_routes(pl_pools *pools, pl_route *route)
{
    while (route) {
        pl_route *next = route->next;
        pl_lock_assert_none();
        forget_context(route);
        pl_lock_acquire(&pools->lock);
        pl_host_free(&pools->host, route);
        pl_lock_release(&pools->lock);
        route = next;
    }
}

/* The call of a filter is over. A route that was left goes to *over with its last call. */
static void end_call(pl_pools *pools, pl_route *route, pl_route **over)
{
    route->n_calls--;
    if (!route->has_ended || route->n_calls > 0) {
        return;
    }
    if (route->is_left) {
        unlink_route(pools, route);
        route->next = *over;
        *over = route;
    } else {
        pthread_cond_broadcast(&pools->filtered);
    }
}

/* Ask without the lock; the route stays in the list meanwhile. EFORKED: without the lock, in a
 * child that may touch nothing. */
static pleat_status ask_filter(pl_pools *pools, pl_route *route, void *stream, bool *is_wanted)
{
    route->n_calls++;
    pl_lock_release(&pools->lock);
    pl_lock_assert_none();
    int cancel = pl_cancel_off();
    n_filters_here++;
    *is_wanted = route->accepts(stream, route->context);
    n_filters_here--;
    pl_cancel_restore(cancel);
    if (pl_use_is_forked(pools->gpu->instance)) {
        return PLEAT_EFORKED;
    }
    pl_lock_acquire(&pools->lock);
    *is_wanted = *is_wanted && !route->has_ended;
    return PLEAT_OK;
}

pleat_status pl_pools_route(pl_pools *pools, void *stream, pl_pool **out)
{
    pl_route *over = NULL;
    *out = NULL;
    pl_lock_acquire(&pools->lock);
    for (pl_route *route = pools->routes, *next; route && !*out; route = next) {
        bool is_wanted = !route->has_ended;
        bool is_asked = is_wanted && route->accepts;
        if (is_asked && ask_filter(pools, route, stream, &is_wanted) != PLEAT_OK) {
            return PLEAT_EFORKED;
        }
        if (is_wanted) {
            *out = route->pool;
            route->pool->n_holds++;
        }
        next = route->next;
        if (is_asked) {
            end_call(pools, route, &over);
        }
    }
    pl_lock_release(&pools->lock);
    forget_routes(pools, over);
    return PLEAT_OK;
}

/* The last one of the pool that this thread began; if there is none, of any thread. */
static pl_route *find_route(const pl_pools *pools, const pl_pool *pool)
{
    pl_route *newest = NULL;
    for (pl_route *route = pools->routes; route; route = route->next) {
        if (route->pool != pool || route->has_ended) {
            continue;
        }
        if (pthread_equal(route->thread, pthread_self())) {
            return route;
        }
        newest = newest ? newest : route;
    }
    return newest;
}

static void count_routes(pl_pools *pools, pl_pool *pool, int n)
{
    pool->n_routes += (unsigned)n;
    atomic_fetch_add(&pools->n_routes, (unsigned)n);
}

/* ---- the table ---- */

pleat_status pl_pools_init(pl_pools *pools, pl_gpu *gpu)
{
    *pools = (pl_pools){ .gpu = gpu };
    if (pthread_cond_init(&pools->filtered, NULL) != 0) {
        return PLEAT_ENOMEM_HOST;
    }
    if (pl_lock_init(&pools->lock, PL_RANK_API) != 0) {
        pthread_cond_destroy(&pools->filtered);
        return PLEAT_ENOMEM_HOST;
    }
    return PLEAT_OK;
}

void pl_pools_fini(pl_pools *pools)
{
    forget_routes(pools, pools->routes);
    pools->routes = NULL;
    while (pools->oldest) {
        pl_pool *pool = pools->oldest;
        pools->oldest = pool->next;
        pl_host_free(&pools->host, pool);
    }
    if (pools->has_host) {
        (void)pl_host_fini(&pools->host);
    }
    pl_lock_fini(&pools->lock);
    pthread_cond_destroy(&pools->filtered);
}

static pleat_status open_host(pl_pools *pools)
{
    pleat_status st = pools->has_host ? PLEAT_OK : pl_host_init(&pools->host);
    pools->has_host = st == PLEAT_OK;
    return st;
}

/* A route is how captures announce themselves. */
static void expect_captures(const pl_pools *pools, bool is_expected)
{
    const pl_gpu *gpu = pools->gpu;
    if (gpu->ops->expect_captures) {
        gpu->ops->expect_captures(gpu->allocator, is_expected);
    }
}

/* ---- begin ---- */

static pleat_status begin_locked(pl_pools *pools, pleat_pool_id id, const pl_route *made_as)
{
    pleat_status st = open_host(pools);
    if (st != PLEAT_OK) {
        return st;
    }
    pl_route *route = pl_host_calloc(&pools->host, 1, sizeof *route);
    pl_pool *pool = NULL;
    st = route ? open_pool(pools, id, &pool) : PLEAT_ENOMEM_HOST;
    if (st != PLEAT_OK) {
        pl_host_free(&pools->host, route);
        return st;
    }
    *route = *made_as;
    route->pool = pool;
    route->next = pools->routes;
    pools->routes = route;
    pool->n_users++;
    count_routes(pools, pool, 1);
    return PLEAT_OK;
}

static pleat_status begin(pleat handle, int device, pleat_pool_id id, const pl_route *made_as)
{
    if (id.first == 0 && id.second == 0) {
        return pl_error_set(PLEAT_EINVAL, 0, "a private pool cannot be called (0, 0)");
    }
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    pl_gpu *gpu = pl_use_gpu(use.instance, device);
    pleat_status st = gpu ? PLEAT_OK : pl_error_status();
    if (gpu && !gpu->ops->private_open) {
        st = pl_error_set(PLEAT_ENOTSUP, 0,
                          "device %d: %s has no private pools, which graphs need; "
                          "allocator:pleat has",
                          device, gpu->ops->name);
    } else if (gpu) {
        expect_captures(&gpu->pools, true);
        pl_lock_acquire(&gpu->pools.lock);
        st = begin_locked(&gpu->pools, id, made_as);
        pl_lock_release(&gpu->pools.lock);
        if (st != PLEAT_OK) {
            expect_captures(&gpu->pools, false);
        }
        if (st != PLEAT_OK) {
            pl_error_set(st, 0, "device %d: the private pool (%llu, %llu) could not be made: %s",
                         device, (unsigned long long)id.first, (unsigned long long)id.second,
                         pleat_status_text(st));
        }
    }
    pl_use_leave(use);
    return st;
}

pleat_status pleat_pool_begin(pleat handle, int device, pleat_pool_id id, pleat_route_fn route,
                              pleat_forget_fn forget, void *context)
{
    pl_route made_as = {
        .accepts = route, .forget = forget, .context = context, .thread = pthread_self()
    };
    pleat_status st = begin(handle, device, id, &made_as);
    if (st != PLEAT_OK) {
        forget_context(&made_as);
    }
    return st;
}

/* ---- end, release, statistics ---- */

/* The device if it exists; NULL and PLEAT_OK if it was never used. */
static pleat_status find_gpu(pl_use use, int device, pl_gpu **out)
{
    if (!use.instance) {
        return pl_error_status();
    }
    *out = pl_use_find_gpu(use.instance, device);
    return *out ? PLEAT_OK : pl_use_check_device(use.instance, device);
}

static pleat_status refuse_pool(int device, pleat_pool_id id, pleat_status st, const char *why)
{
    return pl_error_set(st, 0, "device %d, private pool (%llu, %llu): %s", device,
                        (unsigned long long)id.first, (unsigned long long)id.second, why);
}

/* Wait until no filter of the ended route runs, and take it out. Within a filter nobody can wait:
 * then its last call takes it out, and it is NULL here. */
static pl_route *part_route(pl_pools *pools, pl_route *route)
{
    if (route->n_calls > 0 && n_filters_here > 0) {
        route->is_left = true;
        return NULL;
    }
    while (route->n_calls > 0) {
        pl_lock_wait(&pools->lock, &pools->filtered);
    }
    unlink_route(pools, route);
    route->next = NULL;
    return route;
}

/* Captures have ended before the last route to their pool does, so frees that could not be timed
 * then may be now. */
static bool end_route(pl_pools *pools, pleat_pool_id id)
{
    pl_lock_acquire(&pools->lock);
    pl_pool *pool = find_pool(pools, id);
    pl_route *route = pool ? find_route(pools, pool) : NULL;
    if (!route) {
        pl_lock_release(&pools->lock);
        return false;
    }
    route->has_ended = true;
    count_routes(pools, pool, -1);
    bool is_last = pool->n_routes == 0;
    pool->n_holds++;
    pl_route *over = part_route(pools, route);
    pl_lock_release(&pools->lock);

    forget_routes(pools, over);
    if (is_last) {
        pools->gpu->ops->private_rest(pools->gpu->allocator, pool->in);
    }
    expect_captures(pools, false);
    pl_pool_leave(pools, pool);
    return true;
}

pleat_status pleat_pool_end(pleat handle, int device, pleat_pool_id id)
{
    pl_gpu *gpu = NULL;
    pl_use use = pl_use_enter(handle);
    pleat_status st = find_gpu(use, device, &gpu);
    if (st == PLEAT_OK && (!gpu || !end_route(&gpu->pools, id))) {
        st = refuse_pool(device, id, PLEAT_EPOOL, "nothing is routed there, so nothing can end");
    }
    if (use.instance) {
        pl_use_leave(use);
    }
    return st;
}

/* PLEAT_OK, or why not; *in: what is to be released without the lock. */
static pleat_status release_locked(pl_pools *pools, pleat_pool_id id, pl_private **in)
{
    pl_pool *pool = find_pool(pools, id);
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

pleat_status pleat_pool_release(pleat handle, int device, pleat_pool_id id)
{
    pl_gpu *gpu = NULL;
    pl_private *in = NULL;
    pl_use use = pl_use_enter(handle);
    pleat_status st = find_gpu(use, device, &gpu);
    if (st == PLEAT_OK) {
        st = PLEAT_EPOOL;
        if (gpu) {
            pl_lock_acquire(&gpu->pools.lock);
            st = release_locked(&gpu->pools, id, &in);
            pl_lock_release(&gpu->pools.lock);
            release_private(&gpu->pools, in);
        }
        if (st != PLEAT_OK) {
            refuse_pool(device, id, st,
                        st == PLEAT_EBUSY
                            ? "its last user cannot go while requests are routed there: end first"
                            : "it was released as often as it was begun, or never begun");
        }
    }
    if (use.instance) {
        pl_use_leave(use);
    }
    return st;
}

static bool read_pool(pl_pools *pools, unsigned index, pleat_pool_id *id,
                      pleat_stat reserved[PLEAT_N_POOLS])
{
    pl_lock_acquire(&pools->lock);
    const pl_pool *pool = pools->oldest;
    for (; pool && index > 0; index--) {
        pool = pool->next;
    }
    if (pool) {
        *id = pool->id;
        read_reserved(pools, pool, reserved);
    }
    pl_lock_release(&pools->lock);
    return pool != NULL;
}

pleat_status pleat_pool_stats(pleat handle, int device, unsigned index, pleat_pool_id *id,
                              pleat_stat reserved_bytes[PLEAT_N_POOLS])
{
    pl_gpu *gpu = NULL;
    if (!id || !reserved_bytes) {
        return pl_error_set(PLEAT_EINVAL, 0, "pleat_pool_stats: an out-parameter is NULL");
    }
    pl_use use = pl_use_enter(handle);
    pleat_status st = find_gpu(use, device, &gpu);
    if (st == PLEAT_OK && (!gpu || !read_pool(&gpu->pools, index, id, reserved_bytes))) {
        st = pl_error_set(PLEAT_EPOOL, 0, "device %d has had no more than %u private pools", device,
                          index);
    }
    if (use.instance) {
        pl_use_leave(use);
    }
    return st;
}
