/* async_pool.c - the driver's own pool: with a maximum of the driver's, or a limit kept here.
 *
 * A maximum cannot be changed later: a limit that rises above it gets a second driver pool without
 * one, and the first serves no allocation any more, only frees. Guarded by the device's lock, which
 * is not held across a driver call. What is held is read after the fact, so readings carry numbers:
 * one that was begun before another that is noted already says nothing new. */
#include "vmm/async_pool.h"

#include "vmm/device_state.h"

enum { N_HANDLES = 2 };

struct pl_async_pool {
    pl_device *dev;                /* const */
    bool has_counts;               /* const: the driver tells what it holds */
    uint64_t keep_bytes;           /* const */
    cu_mempool handles[N_HANDLES]; /* lock */
    unsigned n_handles;            /* lock: allocations are of the last one */
    uint64_t max_bytes;            /* lock: the driver's, of the last one; 0 = none */
    uint64_t limit_bytes;          /* lock */
    uint64_t live_bytes;           /* lock: as asked for */
    size_t n_live;                 /* lock: blocks */
    uint64_t n_begun, n_noted;     /* lock: numbers of readings */
    _Atomic uint64_t held_bytes;   /* atomic; written under the lock */
    pl_stream *own_stream;         /* lock: NULL until needed */
    cu_stream own_handle;          /* lock */
};

/* ---- what it holds --------------------------------------------------------------------------- */

static bool read_attribute(const pl_async_pool *pool, cu_mempool handle, int attribute,
                           uint64_t *sum)
{
    uint64_t value = 0;
    if (pl_cu_pool_get(pool->dev->drv, handle, attribute, &value) != CU_SUCCESS) {
        return false;
    }
    *sum += value;
    return true;
}

static void note_held_locked(pl_async_pool *pool, uint64_t held_bytes)
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

/* Copies the handles; returns how many. */
static unsigned copy_handles_locked(const pl_async_pool *pool, cu_mempool handles[N_HANDLES])
{
    pl_lock_assert(&pool->dev->lock);
    for (unsigned i = 0; i < pool->n_handles; i++) {
        handles[i] = pool->handles[i];
    }
    return pool->n_handles;
}

static unsigned copy_handles(pl_async_pool *pool, cu_mempool handles[N_HANDLES])
{
    pl_lock_acquire(&pool->dev->lock);
    unsigned n_handles = copy_handles_locked(pool, handles);
    pl_lock_release(&pool->dev->lock);
    return n_handles;
}

/* Inside a scope. A reading that fails changes nothing. */
static void observe(pl_async_pool *pool)
{
    cu_mempool handles[N_HANDLES];
    uint64_t held_bytes = 0;
    bool is_read = pool->has_counts;
    pl_lock_acquire(&pool->dev->lock);
    uint64_t number = ++pool->n_begun;
    unsigned n_handles = copy_handles_locked(pool, handles);
    pl_lock_release(&pool->dev->lock);
    for (unsigned i = 0; is_read && i < n_handles; i++) {
        is_read = read_attribute(pool, handles[i], CU_POOL_RESERVED_CURRENT, &held_bytes);
    }
    pl_lock_acquire(&pool->dev->lock);
    if (!pool->has_counts) {
        note_held_locked(pool, pool->live_bytes);
    } else if (is_read && number > pool->n_noted) {
        pool->n_noted = number;
        note_held_locked(pool, held_bytes);
    }
    pl_lock_release(&pool->dev->lock);
}

uint64_t pl_async_pool_held_bytes(const pl_async_pool *pool)
{
    return atomic_load_explicit(&pool->held_bytes, memory_order_relaxed);
}

pleat_status pl_async_pool_read(pl_async_pool *pool, pl_async_pool_usage *out)
{
    pl_scope scope;
    pl_async_pool_usage usage = { .reserved_bytes = 0 };
    pleat_status st = pl_scope_begin(pool->dev, &scope);
    if (st != PLEAT_OK) {
        return st;
    }
    bool is_read = true;
    cu_mempool handles[N_HANDLES];
    unsigned n_handles = copy_handles(pool, handles);
    for (unsigned i = 0; is_read && i < n_handles; i++) {
        cu_mempool handle = handles[i];
        is_read = read_attribute(pool, handle, CU_POOL_RESERVED_CURRENT, &usage.reserved_bytes) &&
                  read_attribute(pool, handle, CU_POOL_RESERVED_HIGH, &usage.reserved_high_bytes) &&
                  read_attribute(pool, handle, CU_POOL_USED_CURRENT, &usage.used_bytes) &&
                  read_attribute(pool, handle, CU_POOL_USED_HIGH, &usage.used_high_bytes);
    }
    pl_scope_end(pool->dev, &scope);
    if (!is_read) {
        return PLEAT_EDRIVER;
    }
    *out = usage;
    return PLEAT_OK;
}

/* ---- life ------------------------------------------------------------------------------------ */

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

static bool destroy_handle(pl_device *dev, cu_mempool handle)
{
    return pl_cu_pool_destroy(dev->drv, handle) == CU_SUCCESS ||
           pl_cu_pool_destroy(dev->drv, handle) == CU_SUCCESS;
}

/* One pool of the driver; inside a scope. A refused maximum is tried without: *max_bytes is what it
 * has. The rules of reuse are the driver's defaults, all of them on. */
static pleat_status make_handle(pl_device *dev, uint64_t keep_bytes, uint64_t *max_bytes,
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
    if (result == CU_SUCCESS && dev->n_access > 1) { /* its own device always has access */
        result = pl_cu_pool_set_access(dev->drv, handle, dev->access + 1, dev->n_access - 1);
    }
    if (result != CU_SUCCESS) {
        if (!destroy_handle(dev, handle)) {
            pl_count_add(&dev->n.n_undo_failures, 1);
            pl_driver_note_lost(dev->drv);
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
    pl_async_pool *pool = pl_host_calloc(&dev->host, 1, sizeof(*pool));
    pl_lock_release(&dev->lock);
    return pool;
}

static void delete_pool(pl_device *dev, pl_async_pool *pool)
{
    pl_lock_acquire(&dev->lock);
    pl_host_free(&dev->host, pool);
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
    st = make_handle(dev, keep_bytes, &pool->max_bytes, &pool->handles[0]);
    if (st == PLEAT_OK) {
        uint64_t held_bytes = 0;
        pool->has_counts = read_attribute(pool, pool->handles[0], CU_POOL_RESERVED_CURRENT,
                                          &held_bytes);
        pl_driver_clear_error(); /* what an old driver refuses is no failure */
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
    if (pool->own_stream != NULL &&
        pl_cu_stream_destroy(dev->drv, pool->own_handle) != CU_SUCCESS &&
        pl_cu_stream_destroy(dev->drv, pool->own_handle) != CU_SUCCESS) {
        n_left++;
    }
    for (unsigned i = 0; i < pool->n_handles; i++) {
        n_left += destroy_handle(dev, pool->handles[i]) ? 0 : 1;
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
    note_held_locked(pool, 0);
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
    if (handle != NULL && !is_ours) {
        pl_device_undo(dev, pl_driver_failure(pl_cu_stream_destroy(dev->drv, handle)));
    }
    pl_scope_end(dev, &scope);
    return st;
}

/* ---- allocation ------------------------------------------------------------------------------ */

/* What an allocation of `bytes` meets. */
typedef struct terms {
    cu_mempool handle;
    uint64_t limit_bytes;
    uint64_t held_bytes;
    bool is_over; /* the limit has no room for it, whatever is free */
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

/* In order, and once more if it is refused. */
static cu_result free_in_order(const pl_async_pool *pool, pleat_devptr ptr, const pl_stream *stream)
{
    cu_result result = pl_cu_mem_free_async(pool->dev->drv, ptr, stream->handle);
    return result == CU_SUCCESS ? result
                                : pl_cu_mem_free_async(pool->dev->drv, ptr, stream->handle);
}

/* Undo an allocation for which the pool grew above its limit, and the growth. What the driver does
 * not take back counts as live until the end. */
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
    observe(pool);
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
    observe(pool);
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
            observe(pool);
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
        observe(pool);
    }
    pl_scope_end(dev, &scope);
    return pl_driver_failure(result);
}

/* ---- giving back ----------------------------------------------------------------------------- */

/* One call for each of the driver's pools; inside a scope. */
static cu_result trim_to(pl_async_pool *pool, uint64_t keep_bytes)
{
    cu_result result = CU_SUCCESS;
    cu_mempool handles[N_HANDLES];
    unsigned n_handles = copy_handles(pool, handles);
    for (unsigned i = 0; result == CU_SUCCESS && i < n_handles; i++) {
        bool is_last = i + 1 == n_handles;
        result = pl_cu_pool_trim(pool->dev->drv, handles[i], is_last ? keep_bytes : 0);
    }
    observe(pool);
    return result;
}

/* The driver keeps at least what it is told, so a second and a third call may be needed to get
 * below. */
static cu_result trim_inside(pl_async_pool *pool, uint64_t keep_bytes)
{
    enum { STEP_BYTES = 32 << 20 };
    uint64_t lower = keep_bytes > STEP_BYTES ? keep_bytes - STEP_BYTES : 0;
    const uint64_t steps[] = { keep_bytes, lower, 0 };
    cu_result result = CU_SUCCESS;
    observe(pool);
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

/* It serves no allocation any more: what it holds goes, now or when its frees are over. If that is
 * refused, a trim does it. */
static void retire(pl_async_pool *pool, cu_mempool handle)
{
    uint64_t keep_bytes = 0;
    pl_driver *drv = pool->dev->drv;
    (void)pl_cu_pool_set(drv, handle, CU_POOL_RELEASE_THRESHOLD, &keep_bytes);
    (void)pl_cu_pool_trim(drv, handle, 0);
    observe(pool);
}

/* A further pool of the driver, without a maximum. */
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
    st = make_handle(dev, pool->keep_bytes, &max_bytes, &handle);
    cu_mempool retired = NULL;
    bool is_ours = false;
    if (st == PLEAT_OK) {
        pl_lock_acquire(&dev->lock);
        is_ours = pool->n_handles < N_HANDLES;
        if (is_ours) {
            retired = pool->handles[pool->n_handles - 1];
            pool->handles[pool->n_handles++] = handle;
            pool->max_bytes = 0;
        }
        pl_lock_release(&dev->lock);
    }
    if (is_ours) {
        retire(pool, retired);
    } else if (handle != NULL) {
        pl_device_undo(dev, destroy_handle(dev, handle) ? PLEAT_OK : PLEAT_EDRIVER);
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
