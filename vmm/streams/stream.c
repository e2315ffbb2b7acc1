/* stream.c - tells whether streams are captured, and whether they still exist.
 *
 * stream_get.c tells how a stream is identified, and why captures are asked about first. */
#include "vmm/streams/stream.h"

#include "vmm/device_state.h"

/* ---- who it is ------------------------------------------------------------------------------- */

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

bool pl_stream_is_legacy(const pl_stream *stream)
{
    return stream->kind == PL_STREAM_LEGACY;
}

bool pl_stream_is_told(const pl_stream *stream)
{
    return stream->kind == PL_STREAM_ORDINARY && pl_stream_is_trusted(stream);
}

void pl_stream_doubt(pl_stream *stream)
{
    atomic_store_explicit(&stream->is_doubted, true, memory_order_relaxed);
}

/* ---- whose it is ----------------------------------------------------------------------------- */

static _Thread_local uint64_t own_number;
static _Atomic uint64_t last_number;

/* Of the calling thread; never used again. */
static uint64_t thread_number(void)
{
    if (own_number == 0) {
        own_number = atomic_fetch_add_explicit(&last_number, 1, memory_order_relaxed) + 1;
    }
    return own_number;
}

bool pl_stream_is_anothers(const pl_stream *stream)
{
    return stream->kind == PL_STREAM_ORDINARY && stream->dev->has_stream_ids &&
           atomic_load_explicit(&stream->thread_number, memory_order_relaxed) != thread_number();
}

void pl_stream_take_over(pl_stream *stream)
{
    atomic_store_explicit(&stream->thread_number, thread_number(), memory_order_relaxed);
}

/* ---- captures -------------------------------------------------------------------------------- */

/* What drivers answer for the handle of a destroyed stream. */
static bool is_of_no_stream(cu_result result)
{
    return result == CU_INVALID_HANDLE || result == CU_CONTEXT_IS_DESTROYED ||
           result == CU_STREAM_DETACHED;
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
    pl_driver_set_detail("stream %llu is gone, or another thread's or context's default stream",
                         (unsigned long long)pl_stream_id(stream));
    return PLEAT_ESTREAM;
}

/* Inside a scope the primary context is current, so none of a green one's default stream. */
static bool is_elsewhere(const pl_stream *stream)
{
    return stream->kind == PL_STREAM_GREEN_DEFAULT ||
           (stream->kind == PL_STREAM_PER_THREAD && stream->thread != pl_thread_life_own());
}

/* pl_stream_get finds these kinds only while they are not captured. */
static bool is_at_rest(const pl_stream *stream)
{
    return stream->kind == PL_STREAM_LEGACY || stream->kind == PL_STREAM_GREEN_DEFAULT;
}

/* Gives the stream its id. Two threads at once end with one object. */
static pleat_status name(pl_stream *stream, uint64_t id)
{
    pl_stream like = {
        .handle = stream->handle, .given = stream->given, .id = id, .kind = PL_STREAM_ORDINARY
    };
    pl_stream *own = NULL;
    cu_context context = NULL;
    pleat_status st = pl_stream_find_context(stream->dev, stream->handle, &context);
    atomic_store_explicit(&like.context, context, memory_order_relaxed);
    st = st == PLEAT_OK ? pl_stream_add(stream->dev, &like, &own) : st;
    if (st != PLEAT_OK) {
        return st == PLEAT_ESTREAM ? out_of_reach(stream) : st;
    }
    pl_stream_put(own);
    return own == stream ? PLEAT_OK : out_of_reach(stream);
}

/* Does the handle belong to the stream, by the promise of the program? A stream without an id yet
 * gets its id in a call of its own thread. */
static bool is_sure(const pl_stream *stream)
{
    return pl_stream_is_trusted(stream) &&
           (atomic_load_explicit(&stream->id, memory_order_relaxed) != PL_STREAM_UNNAMED ||
            pl_stream_is_anothers(stream));
}

/* Does the handle still belong to the stream? For a stream at rest, inside a scope. Asked about a
 * stream whose capture another thread begins just now, the driver would break the capture. So a
 * caller that is not of the stream's own thread asks only where it must (pl_stream_is_anothers).
 */
static pleat_status verify(pl_stream *stream)
{
    const pl_device *dev = stream->dev;
    if (stream->kind != PL_STREAM_ORDINARY || !dev->has_stream_ids || is_sure(stream)) {
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

pleat_status pl_stream_refuse_capture(pl_stream *stream)
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
    pleat_status st = pl_stream_refuse_capture(stream);
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
        st = pl_stream_refuse_capture(stream);
        pl_device_leave(stream->dev);
    }
    return st;
}

/* Turns the status of pl_stream_refuse_capture into the answer. */
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
    if (is_at_rest(stream)) {
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
    if (result == CU_SUCCESS || !pl_stream_is_of_thread(result)) {
        return is_of_no_stream(result) ? out_of_reach(stream) : pl_driver_failure(result);
    }
    return tell_capture(refuse_capture_entered(stream), out);
}

static bool tells_of_captures(const pl_device *dev)
{
    return pl_driver_has(dev->drv, PL_CU_stream_capture_info);
}

cu_result pl_stream_ask_capture(const pl_device *dev, cu_stream handle, pl_capture_info *out)
{
    int state = CU_CAPTURE_NONE;
    unsigned long long id = 0;
    cu_graph graph = NULL;
    bool tells = tells_of_captures(dev);
    cu_result result = tells ? pl_cu_stream_capture_info(dev->drv, handle, &state, &id, &graph,
                                                         NULL, NULL)
                             : pl_cu_stream_is_capturing(dev->drv, handle, &state);
    bool is_capturing = state != CU_CAPTURE_NONE;
    bool is_broken = is_capturing && tells && state != CU_CAPTURE_ACTIVE;
    *out = (pl_capture_info){ .is_asked = true,
                              .is_capturing = is_capturing,
                              .is_broken = is_broken,
                              .id = is_capturing ? id : 0,
                              .graph = is_capturing && !is_broken ? graph : NULL };
    return result;
}

/* A thread's default stream is the stream of the handle in the device's context only. */
static bool is_current(const pl_stream *stream)
{
    cu_context current = NULL;
    return stream->kind != PL_STREAM_PER_THREAD ||
           (pl_cu_ctx_get_current(stream->dev->drv, &current) == CU_SUCCESS &&
            current == stream->dev->context);
}

pleat_status pl_stream_capture(pl_stream *stream, pl_capture_info *out)
{
    *out = (pl_capture_info){ .is_asked = true };
    if (is_at_rest(stream)) {
        return PLEAT_OK;
    }
    if (is_elsewhere(stream)) {
        return out_of_reach(stream);
    }
    if (stream->kind == PL_STREAM_PER_THREAD && !tells_of_captures(stream->dev)) {
        return pl_stream_is_capturing(stream, &out->is_capturing);
    }
    cu_result result = CU_INVALID_CONTEXT;
    if (is_current(stream)) {
        result = pl_stream_ask_capture(stream->dev, stream->handle, out);
    }
    if (pl_stream_is_of_thread(result)) {
        pl_driver_clear_error();
        pleat_status st = pl_device_enter(stream->dev);
        if (st != PLEAT_OK) {
            return st;
        }
        result = pl_stream_ask_capture(stream->dev, stream->handle, out);
        pl_device_leave(stream->dev);
    }
    if (result != CU_SUCCESS) {
        return is_of_no_stream(result) ? out_of_reach(stream) : pl_driver_failure(result);
    }
    if (out->is_capturing) {
        pl_stream_note_captured(stream);
    }
    return PLEAT_OK;
}

pleat_status pl_stream_is_still_capturing(pl_stream *stream, bool *out)
{
    if (is_at_rest(stream)) {
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

/* Does the driver know ids, and which is the legacy stream's? A driver that is too old answers
 * "missing" or "not supported". */
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
