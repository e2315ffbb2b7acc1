/* stream.c - identifies streams and tells whether they are captured.
 *
 * A stream has an id. While any stream is captured, the driver tells ids in relaxed capture mode
 * only. Asked for the id of a captured stream, it refuses and breaks the capture (NVIDIA's CCCL
 * guards against both). So pleat first asks whether the stream is captured, which is harmless. A
 * captured stream is known by its handle: it is the stream last seen under that handle. If none
 * was, it is made without an id, which it gets when it is first seen at rest.
 *
 * Known streams are found without a lock. The legacy default stream needs no call. A thread's
 * per-thread default stream is kept in the thread. In every other thread its handle means another
 * stream, so only its own thread can work on it. */
#include "vmm/stream.h"

#include <string.h>

#include "vmm/device_state.h"

/* Keys of per-thread streams: numbers that no driver gives and no handle has. */
#define OF_A_THREAD (UINT64_C(1) << 63)

/* The calling thread's default stream, on the device it was last asked for. */
static _Thread_local struct {
    uint64_t serial;
    pl_stream *stream;
} own_stream;

/* ---- identity -------------------------------------------------------------------------------- */

static bool is_legacy(const void *handle)
{
    return handle == NULL || handle == CU_STREAM_LEGACY;
}

static pleat_status add_legacy(pl_device *dev, void *given, pl_stream **out)
{
    pl_stream like = { .context = dev->context,
                       .handle = CU_STREAM_LEGACY,
                       .given = given,
                       .id = dev->streams.legacy_id,
                       .kind = PL_STREAM_LEGACY };
    return pl_stream_add(dev, &like, out);
}

static pleat_status get_per_thread(pl_device *dev, pl_stream **out)
{
    if (own_stream.serial == dev->serial) {
        *out = own_stream.stream;
        return PLEAT_OK;
    }
    pl_thread_life *life = pl_thread_life_own();
    if (life == NULL) {
        return PLEAT_ENOMEM_HOST;
    }
    pl_stream like = { .context = dev->context,
                       .handle = CU_STREAM_PER_THREAD,
                       .given = CU_STREAM_PER_THREAD,
                       .id = OF_A_THREAD | pl_thread_life_number(life),
                       .thread = life,
                       .kind = PL_STREAM_PER_THREAD };
    pleat_status st = pl_stream_add(dev, &like, out);
    if (st == PLEAT_OK) {
        own_stream.serial = dev->serial;
        own_stream.stream = *out;
    }
    return st;
}

/* What the driver says about a handle. */
typedef struct answer {
    bool is_captured;
    uint64_t id; /* PL_STREAM_UNNAMED for a captured stream */
} answer;

/* In relaxed mode, since another thread may be capturing in global mode. */
static cu_result ask_id(pl_device *dev, cu_stream handle, uint64_t *id)
{
    unsigned long long told = 0;
    int mode = CU_CAPTURE_MODE_RELAXED;
    cu_result result = pl_cu_thread_capture_mode(dev->drv, &mode);
    if (result != CU_SUCCESS) {
        return result;
    }
    result = pl_cu_stream_id(dev->drv, handle, &told);
    pl_scope_restore_mode(dev, mode);
    *id = told;
    return result;
}

static cu_result ask(pl_device *dev, cu_stream handle, answer *out)
{
    int state = CU_CAPTURE_NONE;
    cu_result result = pl_cu_stream_is_capturing(dev->drv, handle, &state);
    *out = (answer){ .is_captured = state != CU_CAPTURE_NONE, .id = PL_STREAM_UNNAMED };
    if (result != CU_SUCCESS || out->is_captured) {
        return result;
    }
    if (!dev->has_stream_ids) {
        out->id = (uintptr_t)handle;
        return CU_SUCCESS;
    }
    return ask_id(dev, handle, &out->id);
}

/* Results that may be about the thread's current context and not the stream. */
static bool is_of_the_thread(cu_result result)
{
    return result == CU_INVALID_CONTEXT || result == CU_CONTEXT_IS_DESTROYED;
}

/* For a thread without a current context. The refusal that led here is no failure. */
static pleat_status ask_entered(pl_device *dev, cu_stream handle, answer *out)
{
    pl_driver_clear_error();
    pleat_status st = pl_device_enter(dev);
    if (st != PLEAT_OK) {
        return st;
    }
    cu_result result = ask(dev, handle, out);
    pl_device_leave(dev);
    return pl_driver_failure(result);
}

/* Finds the context of a stream that is first seen at rest. Inside a scope. */
static pleat_status find_context(pl_device *dev, cu_stream handle, cu_context *out)
{
    cu_result result = pl_cu_stream_ctx(dev->drv, handle, out);
    if (result != CU_SUCCESS) {
        return pl_driver_failure(result);
    }
    pleat_status st = pl_context_admit(dev, *out);
    if (st == PLEAT_ESTREAM) {
        pl_driver_clear_error();
        pl_driver_set_detail(
            "stream %p is not of the primary context of device %d, nor of a peer's "
            "that its memory is open to (peers:True)",
            (void *)handle, dev->ordinal);
    }
    return st;
}

static pleat_status find_context_in_scope(pl_device *dev, cu_stream handle, cu_context *out)
{
    pl_scope scope;
    pleat_status st = pl_scope_begin(dev, &scope);
    if (st == PLEAT_OK) {
        st = find_context(dev, handle, out);
        pl_scope_end(dev, &scope);
    }
    return st;
}

/* Ids are never reused: a stream found by its id is alive, even if it was marked gone. */
static pl_stream *find_alive(const pl_device *dev, uint64_t id)
{
    pl_stream *known = pl_stream_find(dev, id);
    if (known != NULL && atomic_load_explicit(&known->is_gone, memory_order_relaxed)) {
        atomic_store_explicit(&known->is_gone, false, memory_order_relaxed);
    }
    return known;
}

static pleat_status get_ordinary(pl_device *dev, void *handle, pl_stream **out)
{
    pl_stream *trusted = dev->trusts_handles ? pl_stream_newest(dev, handle) : NULL;
    if (trusted != NULL && pl_stream_hold(trusted, PL_STREAM_BY_HANDLE, (uintptr_t)handle)) {
        *out = trusted;
        return PLEAT_OK;
    }
    answer is;
    cu_result result = ask(dev, handle, &is);
    pleat_status st = is_of_the_thread(result) ? ask_entered(dev, handle, &is)
                                               : pl_driver_failure(result);
    if (st != PLEAT_OK) {
        return st;
    }
    pl_stream *known = is.is_captured ? pl_stream_newest(dev, handle) : find_alive(dev, is.id);
    int by = is.is_captured ? PL_STREAM_BY_HANDLE : PL_STREAM_BY_ID;
    if (known != NULL && pl_stream_hold(known, by, is.is_captured ? (uintptr_t)handle : is.id)) {
        *out = known;
        return PLEAT_OK;
    }
    cu_context context = dev->context; /* for a captured stream, until it gets its id */
    st = is.is_captured ? pl_context_admit_active(dev)
                        : find_context_in_scope(dev, handle, &context);
    if (st != PLEAT_OK) {
        return st;
    }
    pl_stream like = { .context = context,
                       .handle = handle,
                       .given = handle,
                       .id = is.id,
                       .kind = PL_STREAM_ORDINARY };
    return pl_stream_add(dev, &like, out);
}

/* A function of its own keeps pl_stream_get short for the commonest stream. */
static __attribute__((noinline)) pleat_status get_other(pl_device *dev, void *handle,
                                                        pl_stream **out)
{
    if (is_legacy(handle)) {
        return add_legacy(dev, handle, out);
    }
    if (handle == CU_STREAM_PER_THREAD) {
        return get_per_thread(dev, out);
    }
    return get_ordinary(dev, handle, out);
}

pl_stream *pl_stream_legacy(const pl_device *dev)
{
    return atomic_load_explicit(&dev->streams.legacy, memory_order_acquire);
}

pleat_status pl_stream_get(pl_device *dev, void *handle, pl_stream **out)
{
    pl_stream *legacy = pl_stream_legacy(dev);
    if (!is_legacy(handle) || legacy == NULL) {
        return get_other(dev, handle, out);
    }
    *out = legacy;
    return PLEAT_OK;
}

pl_stream *pl_stream_known(const pl_device *dev, const void *handle)
{
    bool is_default = is_legacy(handle) || handle == CU_STREAM_PER_THREAD;
    cu_stream key;
    memcpy(&key, &handle, sizeof(key));
    pl_stream *known = is_default ? NULL : pl_stream_newest(dev, key);
    bool is_held = known != NULL && pl_stream_hold(known, PL_STREAM_BY_HANDLE, (uintptr_t)handle);
    return is_held ? known : NULL;
}

unsigned pl_stream_index(const pl_stream *stream)
{
    return stream->index;
}

uint64_t pl_stream_id(const pl_stream *stream)
{
    uint64_t id = atomic_load_explicit(&stream->id, memory_order_relaxed);
    return id != PL_STREAM_UNNAMED ? id : (uintptr_t)stream->handle;
}

void *pl_stream_handle(const pl_stream *stream)
{
    return stream->given;
}

void pl_stream_retire(pl_stream *stream)
{
    if (stream->kind == PL_STREAM_LEGACY) {
        return;
    }
    if (own_stream.stream == stream) {
        own_stream.serial = 0;
    }
    pl_stream_forget(stream);
}

bool pl_stream_is_legacy(const pl_stream *stream)
{
    return stream->kind == PL_STREAM_LEGACY;
}

bool pl_stream_is_told(const pl_stream *stream)
{
    return stream->kind == PL_STREAM_ORDINARY && stream->dev->trusts_handles;
}

/* ---- captures -------------------------------------------------------------------------------- */

/* What drivers answer for the handle of a destroyed stream. */
static bool is_of_no_stream(cu_result result)
{
    return result == CU_INVALID_HANDLE || result == CU_CONTEXT_IS_DESTROYED;
}

bool pl_stream_is_none(pleat_status st)
{
    return st == PLEAT_ESTREAM ||
           (st == PLEAT_EDRIVER && is_of_no_stream(pl_driver_last_error()->result));
}

static pleat_status out_of_reach(pl_stream *stream)
{
    if (stream->kind == PL_STREAM_ORDINARY && stream->dev->has_stream_ids) {
        atomic_store_explicit(&stream->is_gone, true, memory_order_relaxed);
    }
    pl_driver_set_detail("stream %llu is gone, or another thread's default stream",
                         (unsigned long long)pl_stream_id(stream));
    return PLEAT_ESTREAM;
}

static bool is_elsewhere(const pl_stream *stream)
{
    return stream->kind == PL_STREAM_PER_THREAD && stream->thread != pl_thread_life_own();
}

/* Gives the stream its id. If another thread does the same, both find the same stream. */
static pleat_status name(pl_stream *stream, uint64_t id)
{
    pl_stream like = {
        .handle = stream->handle, .given = stream->given, .id = id, .kind = PL_STREAM_ORDINARY
    };
    pl_stream *own = NULL;
    cu_context context = NULL;
    pleat_status st = find_context(stream->dev, stream->handle, &context);
    atomic_store_explicit(&like.context, context, memory_order_relaxed);
    st = st == PLEAT_OK ? pl_stream_add(stream->dev, &like, &own) : st;
    if (st != PLEAT_OK) {
        return st == PLEAT_ESTREAM ? out_of_reach(stream) : st;
    }
    pl_stream_put(own);
    return own == stream ? PLEAT_OK : out_of_reach(stream);
}

/* Does the handle still belong to the stream? For a stream at rest, inside a scope. */
static pleat_status verify(pl_stream *stream)
{
    const pl_device *dev = stream->dev;
    if (stream->kind != PL_STREAM_ORDINARY || !dev->has_stream_ids) {
        return PLEAT_OK;
    }
    unsigned long long id = 0;
    cu_result result = pl_cu_stream_id(dev->drv, stream->handle, &id);
    if (result != CU_SUCCESS) {
        return is_of_no_stream(result) ? out_of_reach(stream) : pl_driver_failure(result);
    }
    uint64_t own_id = atomic_load_explicit(&stream->id, memory_order_relaxed);
    if (own_id == PL_STREAM_UNNAMED) {
        return name(stream, id);
    }
    return own_id == id ? PLEAT_OK : out_of_reach(stream);
}

/* A legacy stream is never captured itself, but touching it would harm the capture of another
 * stream of the context: the driver tells of such a capture. */
static pleat_status refuse_capture(pl_stream *stream)
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

/* Asks about a capture first. A captured stream cannot be verified, except as the last of its
 * handle. */
pleat_status pl_stream_ready(pl_stream *stream)
{
    if (is_elsewhere(stream)) {
        return out_of_reach(stream);
    }
    pleat_status st = refuse_capture(stream);
    if (st == PLEAT_ECAPTURE && stream->kind == PL_STREAM_ORDINARY &&
        pl_stream_newest(stream->dev, stream->handle) != stream) {
        return out_of_reach(stream);
    }
    return st == PLEAT_OK ? verify(stream) : st;
}

/* Asks inside the device's context. */
static pleat_status refuse_capture_entered(pl_stream *stream)
{
    pl_driver_clear_error();
    pleat_status st = pl_device_enter(stream->dev);
    if (st == PLEAT_OK) {
        st = refuse_capture(stream);
        pl_device_leave(stream->dev);
    }
    return st;
}

/* Turns the status of refuse_capture into the answer. */
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
    if (stream->kind == PL_STREAM_LEGACY) {
        *out = false;
        return PLEAT_OK;
    }
    if (is_elsewhere(stream)) {
        return out_of_reach(stream);
    }
    int state = CU_CAPTURE_NONE;
    cu_result result = CU_INVALID_CONTEXT;
    if (stream->kind == PL_STREAM_ORDINARY) {
        result = pl_cu_stream_is_capturing(stream->dev->drv, stream->handle, &state);
        *out = state != CU_CAPTURE_NONE;
    }
    if (result == CU_SUCCESS || !is_of_the_thread(result)) {
        return is_of_no_stream(result) ? out_of_reach(stream) : pl_driver_failure(result);
    }
    return tell_capture(refuse_capture_entered(stream), out);
}

static bool has_capture_info(const pl_stream *stream)
{
    return stream->kind != PL_STREAM_LEGACY && !is_elsewhere(stream) &&
           pl_driver_has(stream->dev->drv, PL_CU_stream_capture_info);
}

pleat_status pl_stream_capture(pl_stream *stream, pl_capture_info *out)
{
    *out = (pl_capture_info){ .is_capturing = false };
    if (!has_capture_info(stream)) {
        return pl_stream_is_capturing(stream, &out->is_capturing);
    }
    int state = CU_CAPTURE_NONE;
    unsigned long long id = 0;
    cu_graph graph = NULL;
    cu_result result = pl_cu_stream_capture_info(stream->dev->drv, stream->handle, &state, &id,
                                                 &graph, NULL, NULL);
    if (is_of_the_thread(result)) {
        pl_driver_clear_error();
        pleat_status st = pl_device_enter(stream->dev);
        if (st != PLEAT_OK) {
            return st;
        }
        result = pl_cu_stream_capture_info(stream->dev->drv, stream->handle, &state, &id, &graph,
                                           NULL, NULL);
        pl_device_leave(stream->dev);
    }
    if (result != CU_SUCCESS) {
        return is_of_no_stream(result) ? out_of_reach(stream) : pl_driver_failure(result);
    }
    if (state != CU_CAPTURE_NONE) {
        bool is_broken = state != CU_CAPTURE_ACTIVE;
        *out = (pl_capture_info){ true, id, is_broken ? NULL : graph, is_broken };
    }
    return PLEAT_OK;
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
    st = pl_stream_ready(stream);
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
    st = pl_stream_ready(stream);
    if (st == PLEAT_OK) {
        pl_count_add(&dev->n.host_syncs, 1);
        st = pl_driver_failure(pl_cu_stream_synchronize(dev->drv, stream->handle));
    }
    pl_scope_end(dev, &scope);
    return st;
}

/* ---- with the device ------------------------------------------------------------------------- */

/* Does the driver know ids, and which is the legacy stream's? A driver that is too old answers that
 * the entry point is missing or not supported. */
pleat_status pl_streams_init(pl_device *dev)
{
    dev->streams.legacy_id = (uintptr_t)CU_STREAM_LEGACY;
    if (!pl_driver_has(dev->drv, PL_CU_stream_id)) {
        return PLEAT_OK;
    }
    unsigned long long id = 0;
    pl_scope scope;
    pleat_status st = pl_scope_begin(dev, &scope);
    if (st != PLEAT_OK) {
        return st;
    }
    cu_result result = pl_cu_stream_id(dev->drv, CU_STREAM_LEGACY, &id);
    pl_scope_end(dev, &scope);
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
