/* fence.c - points on a stream's timeline. A fence is a pooled event, recorded once per use.
 *
 * Events are created without timing. Event calls run inside a scope: primary context current,
 * thread in relaxed capture mode, since a query from any thread would break a global-mode capture
 * elsewhere. A stream under capture is refused before an event touches it.
 *
 * Asking and recording are two calls, and another thread may begin a capture in between. Then the
 * event is a point of that capture. This does the capture no harm. But a query of the event would
 * break the capture, and a stream that waits for the event would be captured, too. So the stream is
 * asked about once more behind the record. If it is captured by then, the event is nobody's fence.
 * Such an event is never named again but to be destroyed, which harms no capture either. A capture
 * that has begun and ended between the two questions leaves an event that drivers refuse by its own
 * code, without harm: see pl_fence_spoil.
 *
 * A stream out of reach was destroyed, or is the default stream of another thread or of a green
 * context. The stream may still have work pending, but no event can be recorded behind the work.
 * So its fence covers the whole device, and passes with any device synchronisation begun after the
 * fence was made.
 *
 * This file records fences. fence_pool.c keeps them, and fence_wait.c queries and waits. A fence
 * that is out belongs to its caller. No lock is held across a driver call. */
#include "vmm/device_state.h"

/* An event belongs to the context of its creation, namely the current `context`. */
static pleat_status have_event(pl_fence *fence, cu_context context)
{
    cu_event event = NULL;
    if (fence->event != NULL && fence->context == context && !fence->is_worn) {
        return PLEAT_OK;
    }
    pl_fence_destroy_event(fence->dev, fence->event);
    fence->event = NULL;
    fence->is_worn = false;
    cu_result result = pl_cu_event_create(fence->dev->drv, &event, CU_EVENT_DISABLE_TIMING_FLAG);
    if (result != CU_SUCCESS) {
        return pl_driver_failure(result);
    }
    fence->event = event;
    fence->context = context;
    return PLEAT_OK;
}

/* Only streams that other threads can name are captured behind the caller's back. */
static pleat_status refuse_late_capture(pl_stream *stream)
{
    return stream->kind == PL_STREAM_ORDINARY ? pl_stream_refuse_capture(stream) : PLEAT_OK;
}

/* An event is recorded only on streams of its own context. */
static pleat_status record_event(pl_stream *stream, pl_fence *fence, cu_context context)
{
    pleat_status st = have_event(fence, context);
    if (st != PLEAT_OK) {
        return st;
    }
    cu_result result = pl_cu_event_record(stream->dev->drv, fence->event, stream->handle);
    if (result == CU_INVALID_HANDLE && stream->kind == PL_STREAM_ORDINARY) {
        pl_driver_clear_error();
        return PLEAT_ESTREAM; /* just destroyed; or of a green context, and the driver is strict */
    }
    if (result != CU_SUCCESS) {
        return pl_fence_spoil(fence, result);
    }
    pleat_status captured = refuse_late_capture(stream);
    if (captured != PLEAT_OK) {
        fence->is_worn = true;
        return captured;
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
    cu_context context = pl_stream_context(stream); /* read after the stream may have got its id */
    return context == stream->dev->context ? record_event(stream, fence, context)
                                           : record_in_peer(stream, fence, context);
}

/* Handle 0 may have meant a green context's default stream, in this call or earlier calls. */
static pleat_status refuse_zero(pl_stream *stream)
{
    bool is_green = stream->kind == PL_STREAM_LEGACY && !pl_green_is_asked_about(stream->dev) &&
                    pl_green_notices(stream->dev);
    return is_green ? PLEAT_ESTREAM : PLEAT_OK;
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
    pl_fence *fence = pl_fence_take(dev);
    if (fence == NULL) {
        return PLEAT_ENOMEM_HOST;
    }
    pl_scope scope;
    pleat_status st = refuse_zero(stream);
    st = st == PLEAT_OK ? pl_scope_begin(dev, &scope) : st;
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

/* The only question that finds captures among unnamed streams without harm. The driver reports
 * captures of blocking streams on the legacy stream, and the captures go on. About other streams
 * nothing can be learnt. */
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
        return pl_fence_spoil(fence, result);
    }
    fence->stream = NULL;
    return PLEAT_OK;
}

static pleat_status record_one_context(pl_device *dev, unsigned i, pl_fence **out)
{
    pl_scope scope;
    cu_context context = dev->contexts.list[i];
    pl_fence *fence = pl_fence_take(dev);
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

/* A capture may have forked into streams of several devices. Every device is asked before anything
 * is recorded. */
static pleat_status refuse_blocking_captures(pl_device *dev)
{
    pleat_status st = PLEAT_OK;
    for (unsigned n = pl_context_count(dev); n > 0 && st == PLEAT_OK; n--) {
        pl_scope scope;
        st = pl_scope_begin_in(dev, dev->contexts.list[n - 1], &scope);
        if (st == PLEAT_OK) {
            st = refuse_blocking_capture(dev);
            pl_scope_end(dev, &scope);
        }
    }
    return st;
}

/* Peers first, since fewer of their captures are known. */
pleat_status pl_fence_record_context(pl_device *dev, pl_fence **out)
{
    pl_fence *all = NULL;
    if (!pl_driver_has(dev->drv, PL_CU_ctx_record_event)) {
        return PLEAT_ENOTSUP;
    }
    pleat_status st = pl_context_count(dev) > 1 ? refuse_blocking_captures(dev) : PLEAT_OK;
    if (st != PLEAT_OK) {
        return st;
    }
    for (unsigned n = pl_context_count(dev); n > 0; n--) {
        pl_fence *fence;
        st = record_one_context(dev, n - 1, &fence);
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

/* The code of an event in a capture that is over says nothing of interest to users. */
pleat_status pl_fence_spoil(pl_fence *fence, cu_result result)
{
    atomic_store_explicit(&fence->is_spoiled, true, memory_order_relaxed);
    if (result == CU_CAPTURED_EVENT) {
        pl_driver_clear_error();
        return PLEAT_ECAPTURE;
    }
    return pl_driver_failure(result);
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
