/* route.c - routes of requests to private pools, and their filters.
 *
 * Upholds I1 and I3. A filter runs without the table's lock (rank 10), and its route stays in the
 * list meanwhile. The thread that ends a route waits for its running filters. A thread inside a
 * filter cannot wait: then the last filter call removes the route. */
#include "api/pool/pool_state.h"
#include "vmm/base/cancel.h"

static _Thread_local unsigned n_filters_here; /* filters that this thread is inside of */

static void unlink_route(pl_pools *pools, const pl_route *route)
{
    pl_route **link = &pools->routes;
    while (*link != route) {
        link = &(*link)->next;
    }
    *link = route->next;
}

void pl_route_forget_context(const pl_route *route)
{
    if (route->forget) {
        int cancel = pl_cancel_off();
        route->forget(route->context);
        pl_cancel_restore(cancel);
    }
}

void pl_pools_forget_routes(pl_pools *pools, pl_route *route)
{
    while (route) {
        pl_route *next = route->next;
        pl_lock_assert_none();
        pl_route_forget_context(route);
        pl_lock_acquire(&pools->lock);
        pl_meta_free(&pools->meta, route);
        pl_lock_release(&pools->lock);
        route = next;
    }
}

/* A filter call is over. If nobody waits for the ended route, its last call moves it to *over. */
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
        pl_cond_broadcast(&pools->filtered);
    }
}

/* ---- a request ---- */

/* Asks without the lock; the route stays in the list meanwhile. EFORKED in a child forked by the
 * filter: the child holds no lock and may touch nothing. */
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
    if (*out) {
        pl_pool_go_in(pools, *out);
    }
    pl_lock_release(&pools->lock);
    pl_pools_forget_routes(pools, over);
    return PLEAT_OK;
}

/* ---- begin and end ---- */

static void count_routes(pl_pools *pools, pl_pool *pool, int n)
{
    pool->n_routes += (unsigned)n;
    atomic_fetch_add(&pools->n_routes, (unsigned)n);
}

/* A route announces captures to come. */
static void expect_captures(const pl_pools *pools, bool is_expected)
{
    const pl_gpu *gpu = pools->gpu;
    if (gpu->ops->expect_captures) {
        gpu->ops->expect_captures(gpu->allocator, is_expected);
    }
}

static pleat_status begin_locked(pl_pools *pools, pleat_pool_id id, const pl_route *made_as)
{
    pleat_status st = pl_pools_open_meta(pools);
    if (st != PLEAT_OK) {
        return st;
    }
    pl_route *route = pl_meta_calloc(&pools->meta, 1, sizeof *route);
    pl_pool *pool = NULL;
    st = route ? pl_pools_open(pools, id, &pool) : PLEAT_ENOMEM_HOST;
    if (st != PLEAT_OK) {
        pl_meta_free(&pools->meta, route);
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

pleat_status pl_pools_begin_route(pl_pools *pools, pleat_pool_id id, const pl_route *made_as)
{
    expect_captures(pools, true);
    pl_lock_acquire(&pools->lock);
    pleat_status st = begin_locked(pools, id, made_as);
    pl_lock_release(&pools->lock);
    if (st != PLEAT_OK) {
        expect_captures(pools, false);
    }
    return st;
}

/* The pool's last route begun by this thread, or else the last route begun by any thread. */
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

/* Waits until no filter of the ended route runs, and removes the route. Inside a filter the call
 * cannot wait: it returns NULL, and the last filter call removes the route. */
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

/* Captures end before the last route to their pool: frees that could not be fenced during a capture
 * may be fenced now. */
bool pl_pools_end_route(pl_pools *pools, pleat_pool_id id)
{
    pl_lock_acquire(&pools->lock);
    pl_pool *pool = pl_pools_find(pools, id);
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

    pl_pools_forget_routes(pools, over);
    if (is_last) {
        pools->gpu->ops->pools->rest(pools->gpu->allocator, pool->in);
    }
    expect_captures(pools, false);
    pl_pool_let_go(pools, pool);
    return true;
}
