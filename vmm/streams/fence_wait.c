/* fence_wait.c - queries fences, waits for one of them, or orders a stream behind a fence.
 *
 * Several threads may query a fence at once. A fence notes that it has passed, and the driver is
 * not asked again. An event that fails a call is spoiled. A fence of the whole device passes when a
 * synchronisation is over that began after the fence was made. No lock is held. */
#include <string.h>

#include "vmm/base/cancel.h"
#include "vmm/base/clock.h"
#include "vmm/device_state.h"

enum { FIRST_PAUSE_NS = 10000, MOST_PAUSE_NS = 1000000 };

/* ---- query ----------------------------------------------------------------------------------- */

/* Answers from the noted state, without a driver call. */
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
    return pl_fence_spoil(fence, result);
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

static pleat_status synchronize_context(pl_device *dev, unsigned i)
{
    pl_scope scope;
    pleat_status st = pl_scope_begin_in(dev, dev->contexts.list[i], &scope);
    if (st != PLEAT_OK) {
        return st;
    }
    cu_result result = pl_cu_ctx_synchronize(dev->drv);
    pl_scope_end(dev, &scope);
    return result == CU_NOT_READY ? PLEAT_EPENDING : pl_driver_failure(result);
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
    if (result == CU_NOT_READY) { /* the simulator's, with waits:refuse */
        return PLEAT_EPENDING;
    }
    if (result != CU_SUCCESS) {
        return pl_fence_spoil(fence, result);
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

/* The simulator's clock stands still during queries, so there a wait synchronises. */
static pleat_status synchronize_any(pl_fence *const *fences, size_t n, bool *passed)
{
    pleat_status st = PLEAT_EPENDING;
    for (size_t i = 0; i < n && st == PLEAT_EPENDING; i++) {
        st = synchronize(fences[i]);
        passed[i] = st == PLEAT_OK;
    }
    return st;
}

static bool has_any(const bool *passed, size_t n)
{
    return n > 0 && memchr(passed, true, n) != NULL;
}

static pleat_status poll_until(pl_fence *const *fences, size_t n, uint64_t deadline_ns,
                               bool *passed)
{
    long pause_ns = FIRST_PAUSE_NS;
    pleat_status st = PLEAT_OK;
    while (st == PLEAT_OK && pl_clock_ns() < deadline_ns) {
        pl_sleep_ns(pause_ns);
        pause_ns = pause_ns * 2 < MOST_PAUSE_NS ? pause_ns * 2 : MOST_PAUSE_NS;
        st = pl_fence_query_many(fences, n, passed);
        if (has_any(passed, n)) {
            return PLEAT_OK;
        }
    }
    return st == PLEAT_OK ? PLEAT_EPENDING : st;
}

pleat_status pl_fence_wait_any(pl_fence *const *fences, size_t n, uint32_t wait_ms, bool *passed)
{
    pleat_status st = pl_fence_query_many(fences, n, passed);
    if (has_any(passed, n)) {
        return PLEAT_OK;
    }
    if (st != PLEAT_OK) {
        return st;
    }
    if (wait_ms == 0) {
        return PLEAT_EPENDING;
    }
    pl_device *dev = fences[0]->dev;
    if (fences[0]->is_whole_device) {
        st = pl_device_synchronize(dev);
        passed[0] = st == PLEAT_OK;
        return st;
    }
    pl_count_add(&dev->n.host_syncs, 1);
    if (pl_driver_is_simulator(dev->drv) || (wait_ms == UINT32_MAX && n == 1)) {
        st = synchronize_any(fences, n, passed);
        if (st != PLEAT_EPENDING || wait_ms == UINT32_MAX) {
            return st;
        }
    }
    return poll_until(fences, n, pl_clock_ns() + (uint64_t)wait_ms * 1000000u, passed);
}

pleat_status pl_fence_wait(pl_fence *fence, uint32_t wait_ms)
{
    bool passed = false;
    return pl_fence_wait_any(&fence, 1, wait_ms, &passed);
}

static pleat_status order_inside(pl_stream *later, pl_fence *fence)
{
    pleat_status st = pl_stream_ready(later);
    if (st != PLEAT_OK) {
        return st;
    }
    pl_driver *drv = later->dev->drv;
    cu_result result = pl_cu_stream_wait_event(drv, later->handle, fence->event, 0);
    if (result == CU_CAPTURED_EVENT) {
        (void)pl_fence_spoil(fence, result);
        return PLEAT_ESTREAM;
    }
    return pl_driver_failure(result);
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
