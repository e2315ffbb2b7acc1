/* stream.c - who a stream is, and what it is doing.
 *
 * Known streams are found without a lock, by one identity call. The legacy default stream needs no
 * call. The per-thread default stream of a thread is kept in that thread; its handle means another
 * stream in every other one, so it can only be worked on from its own. */
#include "vmm/stream.h"

#include "vmm/device_state.h"

/* The thread's own default stream, on the device it asked for last. */
static _Thread_local struct {
    uint64_t serial;
    pl_stream *stream;
} own_stream;

static _Atomic uint64_t next_thread = 1;
static _Thread_local uint64_t thread_number;

/* Numbers of threads are not used again, unlike pthread_self(). */
static uint64_t own_thread(void)
{
    if (thread_number == 0) {
        thread_number = atomic_fetch_add_explicit(&next_thread, 1, memory_order_relaxed);
    }
    return thread_number;
}

/* ---- who is it ------------------------------------------------------------------------------- */

static bool is_legacy(const void *handle)
{
    return handle == NULL || handle == CU_STREAM_LEGACY;
}

static pleat_status add_legacy(pl_device *dev, void *given, pl_stream **out)
{
    pl_stream like = { .handle = CU_STREAM_LEGACY,
                       .given = given,
                       .id = dev->streams.legacy_id,
                       .kind = PL_STREAM_LEGACY };
    return pl_stream_add(dev, &like, out);
}

/* Without ids a thread's stream is known by the thread: an odd number, unlike any handle. */
static pleat_status ask_own_id(pl_device *dev, uint64_t *id)
{
    if (!dev->has_stream_ids) {
        *id = own_thread() * 2 + 1;
        return PLEAT_OK;
    }
    pl_scope scope;
    pleat_status st = pl_scope_begin(dev, &scope);
    if (st != PLEAT_OK) {
        return st;
    }
    unsigned long long answer = 0;
    cu_result result = pl_cu_stream_id(dev->drv, CU_STREAM_PER_THREAD, &answer);
    pl_scope_end(dev, &scope);
    *id = answer;
    return pl_driver_failure(result);
}

static pleat_status get_per_thread(pl_device *dev, pl_stream **out)
{
    if (own_stream.serial == dev->serial) {
        *out = own_stream.stream;
        return PLEAT_OK;
    }
    pl_stream like = { .handle = CU_STREAM_PER_THREAD,
                       .given = CU_STREAM_PER_THREAD,
                       .thread = own_thread(),
                       .kind = PL_STREAM_PER_THREAD };
    pleat_status st = ask_own_id(dev, &like.id);
    if (st == PLEAT_OK) {
        st = pl_stream_add(dev, &like, out);
    }
    if (st == PLEAT_OK) {
        own_stream.serial = dev->serial;
        own_stream.stream = *out;
    }
    return st;
}

/* For a thread without a current context. The refusal that led here is no failure. */
static pleat_status ask_id_entered(pl_device *dev, cu_stream handle, unsigned long long *id)
{
    pl_driver_clear_error();
    pleat_status st = pl_device_enter(dev);
    if (st != PLEAT_OK) {
        return st;
    }
    cu_result result = pl_cu_stream_id(dev->drv, handle, id);
    pl_device_leave(dev);
    return pl_driver_failure(result);
}

static pleat_status ask_id(pl_device *dev, cu_stream handle, uint64_t *id)
{
    if (!dev->has_stream_ids) {
        *id = (uintptr_t)handle;
        return PLEAT_OK;
    }
    unsigned long long answer = 0;
    cu_result result = pl_cu_stream_id(dev->drv, handle, &answer);
    pleat_status st = PLEAT_OK;
    if (result == CU_INVALID_CONTEXT) {
        st = ask_id_entered(dev, handle, &answer);
    } else if (result != CU_SUCCESS) {
        st = pl_driver_failure(result);
    }
    *id = answer;
    return st;
}

/* At first sight only: is it a stream of the device's primary context? */
static pleat_status refuse_foreign(pl_device *dev, cu_stream handle)
{
    cu_context context = NULL;
    pleat_status st = pl_device_enter(dev);
    if (st != PLEAT_OK) {
        return st;
    }
    cu_result result = pl_cu_stream_ctx(dev->drv, handle, &context);
    pl_device_leave(dev);
    if (result != CU_SUCCESS) {
        return pl_driver_failure(result);
    }
    if (context != dev->context) {
        pl_driver_clear_error();
        pl_driver_set_detail("stream %p is not of device %d's primary context", (void *)handle,
                             dev->ordinal);
        return PLEAT_ESTREAM;
    }
    return PLEAT_OK;
}

/* A function of its own, so that pl_stream_get is a short one for the commonest stream. */
static __attribute__((noinline)) pleat_status get_other(pl_device *dev, void *handle,
                                                        pl_stream **out)
{
    if (is_legacy(handle)) {
        return add_legacy(dev, handle, out);
    }
    if (handle == CU_STREAM_PER_THREAD) {
        return get_per_thread(dev, out);
    }
    uint64_t id;
    pleat_status st = ask_id(dev, handle, &id);
    if (st != PLEAT_OK) {
        return st;
    }
    pl_stream *known = pl_stream_find(dev, id);
    if (known != NULL) {
        *out = known;
        return PLEAT_OK;
    }
    st = refuse_foreign(dev, handle);
    if (st != PLEAT_OK) {
        return st;
    }
    pl_stream like = { .handle = handle, .given = handle, .id = id, .kind = PL_STREAM_ORDINARY };
    return pl_stream_add(dev, &like, out);
}

pleat_status pl_stream_get(pl_device *dev, void *handle, pl_stream **out)
{
    pl_stream *legacy = atomic_load_explicit(&dev->streams.legacy, memory_order_acquire);
    if (!is_legacy(handle) || legacy == NULL) {
        return get_other(dev, handle, out);
    }
    *out = legacy;
    return PLEAT_OK;
}

unsigned pl_stream_index(const pl_stream *stream)
{
    return stream->index;
}

uint64_t pl_stream_id(const pl_stream *stream)
{
    return stream->id;
}

void *pl_stream_handle(const pl_stream *stream)
{
    return stream->given;
}

bool pl_stream_is_legacy(const pl_stream *stream)
{
    return stream->kind == PL_STREAM_LEGACY;
}

/* ---- what it is doing ------------------------------------------------------------------------ */

/* What drivers say of the handle of a stream that was destroyed. */
static bool is_of_no_stream(cu_result result)
{
    return result == CU_INVALID_HANDLE || result == CU_CONTEXT_IS_DESTROYED;
}

static pleat_status out_of_reach(const pl_stream *stream)
{
    pl_driver_set_detail("stream %llu is gone, or another thread's default stream",
                         (unsigned long long)stream->id);
    return PLEAT_ESTREAM;
}

pleat_status pl_stream_verify(const pl_stream *stream)
{
    const pl_device *dev = stream->dev;
    bool is_own = true;
    if (stream->kind == PL_STREAM_PER_THREAD) {
        is_own = stream->thread == own_thread();
    } else if (stream->kind == PL_STREAM_ORDINARY && dev->has_stream_ids) {
        unsigned long long id = 0;
        cu_result result = pl_cu_stream_id(dev->drv, stream->handle, &id);
        is_own = result == CU_SUCCESS && id == stream->id;
        if (result != CU_SUCCESS && !is_of_no_stream(result)) {
            return pl_driver_failure(result);
        }
    }
    return is_own ? PLEAT_OK : out_of_reach(stream);
}

/* A legacy stream is never captured itself, but touching it while another stream of the context
 * is would harm that capture: the driver says so. */
pleat_status pl_stream_refuse_capture(const pl_stream *stream)
{
    int state = CU_CAPTURE_NONE;
    cu_result result = pl_cu_stream_is_capturing(stream->dev->drv, stream->handle, &state);
    if (stream->kind == PL_STREAM_ORDINARY && is_of_no_stream(result)) {
        return out_of_reach(stream);
    }
    if (result != CU_SUCCESS) {
        return pl_driver_failure(result);
    }
    return state == CU_CAPTURE_NONE ? PLEAT_OK : PLEAT_ECAPTURE;
}

/* Asks inside the device's context. */
static pleat_status refuse_capture_entered(pl_stream *stream)
{
    pl_driver_clear_error();
    pleat_status st = pl_device_enter(stream->dev);
    if (st == PLEAT_OK) {
        st = pl_stream_refuse_capture(stream);
        pl_device_leave(stream->dev);
    }
    return st;
}

/* The answer from that of pl_stream_refuse_capture. */
static pleat_status tell_capture(pleat_status st, bool *out)
{
    if (st != PLEAT_OK && st != PLEAT_ECAPTURE) {
        return st;
    }
    *out = st == PLEAT_ECAPTURE;
    return PLEAT_OK;
}

pleat_status pl_stream_is_capturing(pl_stream *stream, bool *out)
{
    pleat_status st = PLEAT_OK;
    if (stream->kind == PL_STREAM_PER_THREAD) {
        st = pl_stream_verify(stream);
        st = st == PLEAT_OK ? refuse_capture_entered(stream) : st;
    } else if (stream->kind == PL_STREAM_ORDINARY) {
        st = pl_stream_refuse_capture(stream);
        if (st == PLEAT_EDRIVER && pl_driver_last_error()->result == CU_INVALID_CONTEXT) {
            st = refuse_capture_entered(stream);
        }
    }
    return tell_capture(st, out);
}

pleat_status pl_stream_is_still_capturing(pl_stream *stream, bool *out)
{
    if (stream->kind == PL_STREAM_LEGACY) {
        *out = false;
        return PLEAT_OK;
    }
    pl_scope scope;
    pleat_status st = pl_scope_begin(stream->dev, &scope);
    if (st != PLEAT_OK) {
        return st;
    }
    st = pl_stream_verify(stream);
    st = st == PLEAT_OK ? pl_stream_refuse_capture(stream) : st;
    pl_scope_end(stream->dev, &scope);
    return tell_capture(st, out);
}

pleat_status pl_stream_synchronize(pl_stream *stream)
{
    pl_device *dev = stream->dev;
    pl_scope scope;
    pleat_status st = pl_scope_begin(dev, &scope);
    if (st != PLEAT_OK) {
        return st;
    }
    st = pl_stream_verify(stream);
    if (st == PLEAT_OK) {
        st = pl_stream_refuse_capture(stream);
    }
    if (st == PLEAT_OK) {
        pl_count_add(&dev->n.host_syncs, 1);
        st = pl_driver_failure(pl_cu_stream_synchronize(dev->drv, stream->handle));
    }
    pl_scope_end(dev, &scope);
    return st;
}

/* ---- with the device ------------------------------------------------------------------------- */

/* Does the driver know ids, and which is the legacy stream's? A driver that is too old says that
 * it has no such entry point, or does not support it. */
pleat_status pl_streams_init(pl_device *dev)
{
    dev->streams.legacy_id = (uintptr_t)CU_STREAM_LEGACY;
    if (!pl_driver_has(dev->drv, PL_CU_stream_id)) {
        return PLEAT_OK;
    }
    unsigned long long id = 0;
    pleat_status st = pl_device_enter(dev);
    if (st != PLEAT_OK) {
        return st;
    }
    cu_result result = pl_cu_stream_id(dev->drv, CU_STREAM_LEGACY, &id);
    pl_device_leave(dev);
    if (result == CU_NOT_FOUND || result == CU_NOT_SUPPORTED) {
        return PLEAT_OK;
    }
    if (result != CU_SUCCESS) {
        return pl_driver_failure(result);
    }
    dev->has_stream_ids = true;
    dev->streams.legacy_id = id;
    return PLEAT_OK;
}
