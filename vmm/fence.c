/* fence.c - points on a stream's timeline: pooled events, each recorded once per use.
 *
 * Events are created without timing and go back to a free list; an event that ever failed is
 * destroyed instead. Event calls run inside a scope: primary context current, thread in relaxed
 * capture mode, since a query from any thread would break a global-mode capture elsewhere.
 * A stream that is being captured is refused before an event touches it.
 *
 * A stream that cannot be reached any more (destroyed, or another thread's default stream) may
 * still have work pending, and no event can be put behind it. Its fence is one of the whole device:
 * it passes with any synchronisation of the device that began after it was made.
 *
 * Guarded by the device's lock, which is not held across a driver call; a fence that is out belongs
 * to its caller, but may be queried from several threads at once: that it has passed is final. */
#include <time.h>

#include "vmm/base/cancel.h"
#include "vmm/device_state.h"

enum { FIRST_PAUSE_NS = 10000, MOST_PAUSE_NS = 1000000 };

/* ---- the pool -------------------------------------------------------------------------------- */

static bool add_slab_locked(pl_device *dev)
{
    pl_lock_assert(&dev->lock);
    pl_fence_slab *slab = pl_host_calloc(&dev->host, 1, sizeof(*slab));
    if (slab == NULL) {
        return false;
    }
    slab->next = dev->fences.slabs;
    dev->fences.slabs = slab;
    for (size_t i = 0; i < PL_FENCES_PER_SLAB; i++) {
        slab->fences[i].dev = dev;
        slab->fences[i].next = dev->fences.free;
        dev->fences.free = &slab->fences[i];
    }
    return true;
}

static pl_fence *take_fence(pl_device *dev)
{
    pl_fence *fence = NULL;
    pl_lock_acquire(&dev->lock);
    if (dev->fences.free != NULL || add_slab_locked(dev)) {
        fence = dev->fences.free;
        dev->fences.free = fence->next;
        dev->fences.n_out++;
    }
    pl_lock_release(&dev->lock);
    return fence;
}

/* Tried even where the scope cannot be had: most drivers do not need it for this. */
static void destroy_event(pl_device *dev, cu_event event)
{
    if (event == NULL) {
        return;
    }
    pl_scope scope;
    bool is_inside = pl_scope_begin(dev, &scope) == PLEAT_OK;
    if (pl_cu_event_destroy(dev->drv, event) != CU_SUCCESS &&
        pl_cu_event_destroy(dev->drv, event) != CU_SUCCESS) {
        pl_count_add(&dev->n.n_lost_events, 1);
        pl_count_add(&dev->n.n_undo_failures, 1);
    }
    if (is_inside) {
        pl_scope_end(dev, &scope);
    }
}

void pl_fence_share(pl_fence *fence, uint32_t n)
{
    pl_lock_acquire(&fence->dev->lock);
    fence->n_shares += n;
    pl_lock_release(&fence->dev->lock);
}

/* Does nobody else have it? */
static bool is_last_return(pl_fence *fence)
{
    pl_lock_acquire(&fence->dev->lock);
    bool is_last = fence->n_shares == 0;
    fence->n_shares -= is_last ? 0 : 1;
    pl_lock_release(&fence->dev->lock);
    return is_last;
}

/* The pool has events of the device's own context: peers' fences are few. */
static void put_back(pl_fence *fence)
{
    pl_device *dev = fence->dev;
    if (atomic_load_explicit(&fence->is_spoiled, memory_order_relaxed) ||
        fence->context != dev->context) {
        destroy_event(dev, fence->event);
        fence->event = NULL;
    }
    atomic_store_explicit(&fence->is_spoiled, false, memory_order_relaxed);
    atomic_store_explicit(&fence->has_passed, false, memory_order_relaxed);
    fence->is_whole_device = false;
    fence->also = NULL;
    pl_lock_acquire(&dev->lock);
    fence->next = dev->fences.free;
    dev->fences.free = fence;
    dev->fences.n_out--;
    pl_lock_release(&dev->lock);
}

void pl_fence_return(pl_fence *fence)
{
    if (fence == NULL || !is_last_return(fence)) {
        return;
    }
    while (fence != NULL) {
        pl_fence *also = fence->also;
        put_back(fence);
        fence = also;
    }
}

size_t pl_fences_fini(pl_device *dev)
{
    size_t n_out = dev->fences.n_out;
    pl_fence_slab *slab = dev->fences.slabs;
    while (slab != NULL) {
        for (size_t i = 0; i < PL_FENCES_PER_SLAB; i++) {
            destroy_event(dev, slab->fences[i].event);
        }
        pl_fence_slab *next = slab->next;
        pl_host_free(&dev->host, slab);
        slab = next;
    }
    return n_out;
}

/* ---- record ---------------------------------------------------------------------------------- */

/* Of the current context, which is `context`; a pooled one is of the device's own. */
static pleat_status have_event(pl_fence *fence, cu_context context)
{
    cu_event event = NULL;
    if (fence->event != NULL && fence->context == context) {
        return PLEAT_OK;
    }
    destroy_event(fence->dev, fence->event);
    fence->event = NULL;
    cu_result result = pl_cu_event_create(fence->dev->drv, &event, CU_EVENT_DISABLE_TIMING_FLAG);
    if (result != CU_SUCCESS) {
        return pl_driver_failure(result);
    }
    fence->event = event;
    fence->context = context;
    return PLEAT_OK;
}

/* An event is recorded on streams of its own context only. */
static pleat_status record_event(pl_stream *stream, pl_fence *fence, cu_context context)
{
    pleat_status st = have_event(fence, context);
    if (st != PLEAT_OK) {
        return st;
    }
    cu_result result = pl_cu_event_record(stream->dev->drv, fence->event, stream->handle);
    if (result != CU_SUCCESS) {
        atomic_store_explicit(&fence->is_spoiled, true, memory_order_relaxed);
        return pl_driver_failure(result);
    }
    fence->stream = stream;
    return PLEAT_OK;
}

static pleat_status record_in_peer(pl_stream *stream, pl_fence *fence, cu_context context)
{
    pl_scope scope;
    pleat_status st = pl_scope_begin_in(stream->dev, context, &scope);
    if (st == PLEAT_OK) {
        st = record_event(stream, fence, context);
        pl_scope_end(stream->dev, &scope);
    }
    return st;
}

static pleat_status record_inside(pl_stream *stream, pl_fence *fence)
{
    pleat_status st = pl_stream_ready(stream);
    if (st != PLEAT_OK) {
        return st;
    }
    cu_context context = pl_stream_context(stream); /* after it may have been named */
    return context == stream->dev->context ? record_event(stream, fence, context)
                                           : record_in_peer(stream, fence, context);
}

static void make_whole_device(pl_stream *stream, pl_fence *fence)
{
    fence->stream = stream;
    fence->is_whole_device = true;
    fence->epoch = atomic_load(&stream->dev->fences.n_syncs_begun);
}

bool pl_fence_is_whole_device(const pl_fence *fence)
{
    return fence->is_whole_device;
}

pleat_status pl_fence_record(pl_stream *stream, pl_fence **out)
{
    pl_device *dev = stream->dev;
    pl_fence *fence = take_fence(dev);
    if (fence == NULL) {
        return PLEAT_ENOMEM_HOST;
    }
    pl_scope scope;
    pleat_status st = pl_scope_begin(dev, &scope);
    if (st == PLEAT_OK) {
        st = record_inside(stream, fence);
        pl_scope_end(dev, &scope);
    }
    if (st == PLEAT_ESTREAM && pl_driver_can_synchronize(dev->drv)) {
        make_whole_device(stream, fence);
        st = PLEAT_OK;
    }
    if (st != PLEAT_OK) {
        pl_fence_return(fence);
        return st;
    }
    *out = fence;
    return PLEAT_OK;
}

/* The one question about streams nobody named that harms none of them: of captures of blocking
 * streams the legacy stream is told, and they go on. Of others nothing can be learnt. */
static pleat_status refuse_blocking_capture(const pl_device *dev)
{
    int state = CU_CAPTURE_NONE;
    return pl_driver_failure(pl_cu_stream_is_capturing(dev->drv, CU_STREAM_LEGACY, &state));
}

static pleat_status record_context_inside(pl_device *dev, pl_fence *fence, cu_context context)
{
    pleat_status st = have_event(fence, context);
    st = st == PLEAT_OK ? refuse_blocking_capture(dev) : st;
    if (st != PLEAT_OK) {
        return st;
    }
    cu_result result = pl_cu_ctx_record_event(dev->drv, context, fence->event);
    if (result == CU_NOT_FOUND || result == CU_NOT_SUPPORTED) {
        return PLEAT_ENOTSUP;
    }
    if (result != CU_SUCCESS) {
        atomic_store_explicit(&fence->is_spoiled, true, memory_order_relaxed);
        return pl_driver_failure(result);
    }
    fence->stream = NULL;
    return PLEAT_OK;
}

static pleat_status record_one_context(pl_device *dev, unsigned i, pl_fence **out)
{
    pl_scope scope;
    cu_context context = dev->contexts.list[i];
    pl_fence *fence = take_fence(dev);
    if (fence == NULL) {
        return PLEAT_ENOMEM_HOST;
    }
    pleat_status st = pl_context_begin_record(dev, i);
    if (st == PLEAT_OK) {
        st = pl_scope_begin_in(dev, context, &scope);
        if (st == PLEAT_OK) {
            st = record_context_inside(dev, fence, context);
            pl_scope_end(dev, &scope);
        }
        pl_context_end_record(dev, i);
    }
    if (st != PLEAT_OK) {
        pl_fence_return(fence);
        return st;
    }
    *out = fence;
    return PLEAT_OK;
}

/* Peers first: of them fewer captures are known. */
pleat_status pl_fence_record_context(pl_device *dev, pl_fence **out)
{
    pl_fence *all = NULL;
    if (!pl_driver_has(dev->drv, PL_CU_ctx_record_event)) {
        return PLEAT_ENOTSUP;
    }
    for (unsigned n = pl_context_count(dev); n > 0; n--) {
        pl_fence *fence;
        pleat_status st = record_one_context(dev, n - 1, &fence);
        if (st != PLEAT_OK) {
            pl_fence_return(all);
            return st;
        }
        fence->also = all;
        all = fence;
    }
    *out = all;
    return PLEAT_OK;
}

bool pl_fence_is_spoiled(const pl_fence *fence)
{
    bool is_spoiled = false;
    for (; fence != NULL; fence = fence->also) {
        is_spoiled |= atomic_load_explicit(&fence->is_spoiled, memory_order_relaxed);
    }
    return is_spoiled;
}

pl_stream *pl_fence_stream(const pl_fence *fence)
{
    return fence->stream;
}

/* ---- query ----------------------------------------------------------------------------------- */

/* Without a call: what is known. */
static bool has_one_passed(const pl_fence *fence)
{
    if (fence->is_whole_device) {
        return atomic_load(&fence->dev->fences.last_sync_done) > fence->epoch;
    }
    return atomic_load_explicit(&fence->has_passed, memory_order_acquire);
}

static bool has_passed(const pl_fence *fence)
{
    bool passed = true;
    for (; fence != NULL && passed; fence = fence->also) {
        passed = has_one_passed(fence);
    }
    return passed;
}

static pleat_status query_one(pl_fence *fence, bool *passed)
{
    *passed = has_one_passed(fence);
    if (*passed || fence->is_whole_device) {
        return PLEAT_OK;
    }
    cu_result result = pl_cu_event_query(fence->dev->drv, fence->event);
    *passed = result == CU_SUCCESS;
    if (result == CU_SUCCESS) {
        atomic_store_explicit(&fence->has_passed, true, memory_order_release);
        return PLEAT_OK;
    }
    if (result == CU_NOT_READY) {
        return PLEAT_OK;
    }
    atomic_store_explicit(&fence->is_spoiled, true, memory_order_relaxed);
    return pl_driver_failure(result);
}

static pleat_status query_inside(pl_fence *fence, bool *passed)
{
    pleat_status st = PLEAT_OK;
    *passed = true;
    for (; fence != NULL && *passed; fence = fence->also) {
        st = query_one(fence, passed);
    }
    return st;
}

pleat_status pl_fence_query_many(pl_fence *const *fences, size_t n, bool *passed)
{
    size_t n_known = 0;
    for (size_t i = 0; i < n; i++) {
        passed[i] = has_passed(fences[i]);
        n_known += passed[i] || fences[i]->is_whole_device ? 1 : 0;
    }
    if (n_known == n) {
        return PLEAT_OK;
    }
    pl_device *dev = fences[0]->dev;
    pl_scope scope;
    pleat_status first = pl_scope_begin(dev, &scope);
    if (first != PLEAT_OK) {
        return first;
    }
    for (size_t i = 0; i < n; i++) {
        pleat_status st = query_inside(fences[i], &passed[i]);
        first = first == PLEAT_OK ? st : first;
    }
    pl_scope_end(dev, &scope);
    return first;
}

pleat_status pl_fence_query(pl_fence *fence, bool *passed)
{
    bool answer = false;
    pleat_status st = pl_fence_query_many(&fence, 1, &answer);
    if (st == PLEAT_OK) {
        *passed = answer;
    }
    return st;
}

/* ---- wait and order -------------------------------------------------------------------------- */

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static pleat_status synchronize_context(pl_device *dev, unsigned i)
{
    pl_scope scope;
    pleat_status st = pl_scope_begin_in(dev, dev->contexts.list[i], &scope);
    if (st != PLEAT_OK) {
        return st;
    }
    cu_result result = pl_cu_ctx_synchronize(dev->drv);
    pl_scope_end(dev, &scope);
    return pl_driver_failure(result);
}

static pleat_status synchronize_sparing(pl_device *dev, unsigned i)
{
    pleat_status st = pl_context_begin_record(dev, i);
    if (st == PLEAT_OK) {
        st = synchronize_context(dev, i);
        pl_context_end_record(dev, i);
    }
    return st;
}

static pleat_status synchronize_all(pl_device *dev, pleat_status (*one)(pl_device *dev, unsigned i))
{
    pl_count_add(&dev->n.host_syncs, 1);
    uint64_t number = atomic_fetch_add(&dev->fences.n_syncs_begun, 1) + 1;
    pleat_status st = PLEAT_OK;
    for (unsigned n = pl_context_count(dev); n > 0 && st == PLEAT_OK; n--) {
        st = one(dev, n - 1);
    }
    uint64_t done = atomic_load(&dev->fences.last_sync_done);
    while (st == PLEAT_OK && done < number &&
           !atomic_compare_exchange_weak(&dev->fences.last_sync_done, &done, number)) {
    }
    return st;
}

pleat_status pl_device_synchronize(pl_device *dev)
{
    return synchronize_all(dev, synchronize_sparing);
}

pleat_status pl_device_drain(pl_device *dev)
{
    return synchronize_all(dev, synchronize_context);
}

static pleat_status synchronize_one(pl_fence *fence)
{
    pl_scope scope;
    pleat_status st = pl_scope_begin(fence->dev, &scope);
    if (st != PLEAT_OK) {
        return st;
    }
    cu_result result = pl_cu_event_synchronize(fence->dev->drv, fence->event);
    pl_scope_end(fence->dev, &scope);
    if (result != CU_SUCCESS) {
        atomic_store_explicit(&fence->is_spoiled, true, memory_order_relaxed);
        return pl_driver_failure(result);
    }
    atomic_store_explicit(&fence->has_passed, true, memory_order_release);
    return PLEAT_OK;
}

static pleat_status synchronize(pl_fence *fence)
{
    pleat_status st = PLEAT_OK;
    for (; fence != NULL && st == PLEAT_OK; fence = fence->also) {
        st = synchronize_one(fence);
    }
    return st;
}

static pleat_status poll_until(pl_fence *fence, uint64_t deadline_ns)
{
    long pause_ns = FIRST_PAUSE_NS;
    bool passed = false;
    while (now_ns() < deadline_ns) {
        pl_sleep_ns(pause_ns);
        pause_ns = pause_ns * 2 < MOST_PAUSE_NS ? pause_ns * 2 : MOST_PAUSE_NS;
        pleat_status st = pl_fence_query(fence, &passed);
        if (st != PLEAT_OK || passed) {
            return st;
        }
    }
    return PLEAT_EPENDING;
}

pleat_status pl_fence_wait(pl_fence *fence, uint32_t wait_ms)
{
    bool passed = false;
    pleat_status st = pl_fence_query(fence, &passed);
    if (st != PLEAT_OK || passed) {
        return st;
    }
    if (wait_ms == 0) {
        return PLEAT_EPENDING;
    }
    pl_device *dev = fence->dev;
    if (fence->is_whole_device) {
        return pl_device_synchronize(dev);
    }
    pl_count_add(&dev->n.host_syncs, 1);
    /* The simulator's time stands still while it is only asked, so there a wait synchronises. */
    if (wait_ms == UINT32_MAX || pl_driver_is_simulator(dev->drv)) {
        return synchronize(fence);
    }
    return poll_until(fence, now_ns() + (uint64_t)wait_ms * 1000000u);
}

static pleat_status order_inside(pl_stream *later, const pl_fence *fence)
{
    pleat_status st = pl_stream_ready(later);
    if (st != PLEAT_OK) {
        return st;
    }
    pl_driver *drv = later->dev->drv;
    return pl_driver_failure(pl_cu_stream_wait_event(drv, later->handle, fence->event, 0));
}

pleat_status pl_fence_order(pl_stream *later, pl_fence *fence)
{
    if (later == fence->stream || has_passed(fence)) {
        return PLEAT_OK;
    }
    if (fence->is_whole_device) {
        return PLEAT_ESTREAM;
    }
    pl_device *dev = later->dev;
    pl_scope scope;
    pleat_status st = pl_scope_begin(dev, &scope);
    if (st != PLEAT_OK) {
        return st;
    }
    st = order_inside(later, fence);
    pl_scope_end(dev, &scope);
    if (st == PLEAT_OK) {
        pl_count_add(&dev->n.stream_waits, 1);
    }
    return st;
}
