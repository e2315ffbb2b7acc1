/* stream_get.c - finds the stream that a handle means.
 *
 * A stream has an id. While any stream is captured, the driver tells ids in relaxed capture mode
 * only. Asked for the id of a captured stream, the driver refuses and breaks the capture (NVIDIA's
 * CCCL guards against the breakage, too). So pleat first asks about the capture, which does no
 * harm. A captured stream counts as the stream last seen under its handle. Without such a stream,
 * one is made without an id, and gets an id at its first sight at rest.
 *
 * Known streams are found without a lock. The legacy default stream needs no call, unless green
 * contexts have been current (green.c). A per-thread default stream is kept in its thread. In every
 * other thread the handle means another stream, so only the stream's own thread can work on it. */
#include <string.h>

#include "vmm/device_state.h"

/* Keys of per-thread streams are numbers that no driver gives and no handle has. */
#define OF_A_THREAD (UINT64_C(1) << 63)

/* The calling thread's default stream, on the device it was last asked for. */
static _Thread_local struct {
    uint64_t serial;
    pl_stream *stream;
} own_stream;

/* ---- the default streams --------------------------------------------------------------------- */

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

/* The default stream that the handle means while a green context is current. ENOTSUP: none is. */
static pleat_status get_green_default(pl_device *dev, void *given, pl_capture_info *info,
                                      pl_stream **out)
{
    cu_stream handle = is_legacy(given) ? CU_STREAM_LEGACY : CU_STREAM_PER_THREAD;
    uint64_t id = 0;
    pleat_status st = pl_green_default(dev, handle, info, &id);
    if (st != PLEAT_OK) {
        return st;
    }
    bool is_of_thread = handle == CU_STREAM_PER_THREAD; /* then the stream ends with the thread */
    pl_stream like = { .context = dev->context,
                       .handle = handle,
                       .given = given,
                       .id = id,
                       .thread = is_of_thread ? pl_thread_life_own() : NULL,
                       .kind = PL_STREAM_GREEN_DEFAULT };
    return is_of_thread && like.thread == NULL ? PLEAT_ENOMEM_HOST : pl_stream_add(dev, &like, out);
}

static pleat_status add_per_thread(pl_device *dev, pl_stream **out)
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

static pleat_status get_default(pl_device *dev, void *given, pl_capture_info *info, pl_stream **out)
{
    pleat_status st = get_green_default(dev, given, info, out);
    if (st != PLEAT_ENOTSUP) {
        return st;
    }
    info->is_asked = false;
    return is_legacy(given) ? add_legacy(dev, given, out) : add_per_thread(dev, out);
}

/* ---- what the driver says -------------------------------------------------------------------- */

typedef struct answer {
    pl_capture_info capture;
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
    out->id = PL_STREAM_UNNAMED;
    cu_result result = pl_stream_ask_capture(dev, handle, &out->capture);
    if (result != CU_SUCCESS || out->capture.is_capturing) {
        return result;
    }
    if (!dev->has_stream_ids) {
        out->id = (uintptr_t)handle;
        return CU_SUCCESS;
    }
    return ask_id(dev, handle, &out->id);
}

/* For a thread without a current context. The refusal before this call is no failure. */
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

/* Some drivers do not tell the context of a green context's stream by the first of the calls. */
pleat_status pl_stream_find_context(pl_device *dev, cu_stream handle, cu_context *out)
{
    cu_result result = pl_cu_stream_ctx(dev->drv, handle, out);
    if (result == CU_SUCCESS && *out == dev->context) {
        return PLEAT_OK;
    }
    pleat_status st = pl_green_primary(dev, handle, out);
    if (st != PLEAT_OK && st != PLEAT_ENOTSUP) {
        return st;
    }
    if (st == PLEAT_ENOTSUP && result != CU_SUCCESS) {
        return pl_driver_failure(result);
    }
    st = pl_context_admit(dev, *out);
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
        st = pl_stream_find_context(dev, handle, out);
        pl_scope_end(dev, &scope);
    }
    return st;
}

/* ---- ordinary streams ------------------------------------------------------------------------ */

/* Ids are never reused, so a stream found by its id is alive, even if marked gone. */
static pl_stream *find_alive(const pl_device *dev, uint64_t id)
{
    pl_stream *known = pl_stream_find(dev, id);
    if (known != NULL && atomic_load_explicit(&known->is_gone, memory_order_relaxed)) {
        atomic_store_explicit(&known->is_gone, false, memory_order_relaxed);
    }
    return known;
}

static pleat_status add_ordinary(pl_device *dev, cu_stream handle, uint64_t id, pl_stream **out)
{
    bool is_captured = id == PL_STREAM_UNNAMED;
    cu_context context = dev->context; /* for a captured stream without an id yet */
    pleat_status st = is_captured ? pl_context_admit_active(dev)
                                  : find_context_in_scope(dev, handle, &context);
    if (st != PLEAT_OK) {
        return st;
    }
    pl_stream like = {
        .context = context, .handle = handle, .given = handle, .id = id, .kind = PL_STREAM_ORDINARY
    };
    return pl_stream_add(dev, &like, out);
}

static pleat_status find_or_add(pl_device *dev, cu_stream handle, const answer *is, pl_stream **out)
{
    bool is_captured = is->capture.is_capturing;
    pl_stream *known = is_captured ? pl_stream_newest(dev, handle) : find_alive(dev, is->id);
    int by = is_captured ? PL_STREAM_BY_HANDLE : PL_STREAM_BY_ID;
    if (known != NULL && pl_stream_hold(known, by, is_captured ? (uintptr_t)handle : is->id)) {
        *out = known;
        return PLEAT_OK;
    }
    return add_ordinary(dev, handle, is->id, out);
}

static pleat_status get_asking(pl_device *dev, cu_stream handle, bool is_guess,
                               pl_capture_info *info, pl_stream **out)
{
    answer is;
    pl_stream *before = pl_stream_newest(dev, handle);
    unsigned n_captured = before != NULL ? pl_stream_n_captured(before) : 0;
    cu_result result = ask(dev, handle, &is);
    pleat_status st = pl_stream_is_of_thread(result) ? ask_entered(dev, handle, &is)
                                                     : pl_driver_failure(result);
    st = st == PLEAT_OK ? find_or_add(dev, handle, &is, out) : st;
    if (st != PLEAT_OK) {
        return st;
    }
    if (!is_guess || *out != before) {
        pl_stream_take_over(*out);
    }
    if (is.capture.is_capturing) {
        pl_stream_note_captured(*out);
    } else if (*out == before) {
        pl_stream_note_rest(before, n_captured);
    }
    *info = is.capture;
    return PLEAT_OK;
}

/* May a call that gives memory back take the stream for the handle's present owner? The stream
 * needs an id, because only the id tells it from later streams. After a capture the stream's lane
 * waits to hear that the stream is at rest, which a wrong stream cannot tell for certain. Where
 * memory is open to peers, the handle may belong to another device by now, whose work no fence
 * covers unless its context is known. */
static bool may_guess(const pl_stream *stream)
{
    return stream->dev->n_access <= 1 && pl_stream_rests(stream) &&
           atomic_load_explicit(&stream->id, memory_order_relaxed) != PL_STREAM_UNNAMED;
}

/* The question might break a capture that another thread begins just now. */
static bool must_guess(pl_stream *stream)
{
    bool must = stream->dev->n_access <= 1 && pl_stream_is_anothers(stream);
    if (must && atomic_load_explicit(&stream->id, memory_order_relaxed) == PL_STREAM_UNNAMED) {
        atomic_store_explicit(&stream->is_blurred, true, memory_order_relaxed);
    }
    return must;
}

/* Is the stream last seen under the handle the answer, without asking? */
static bool is_taken_for_owner(pl_stream *newest, bool is_guess)
{
    return pl_stream_is_trusted(newest) || (is_guess && (may_guess(newest) || must_guess(newest)));
}

static pleat_status get_ordinary(pl_device *dev, cu_stream handle, bool is_guess,
                                 pl_capture_info *info, pl_stream **out)
{
    pl_stream *newest = is_guess || dev->trusts_handles ? pl_stream_newest(dev, handle) : NULL;
    if (newest != NULL && is_taken_for_owner(newest, is_guess) &&
        pl_stream_hold(newest, PL_STREAM_BY_HANDLE, (uintptr_t)handle)) {
        *out = newest;
        return PLEAT_OK;
    }
    return get_asking(dev, handle, is_guess, info, out);
}

/* ---- the calls ------------------------------------------------------------------------------- */

/* A function of its own keeps the calls short for the commonest stream. */
static __attribute__((noinline)) pleat_status get_other(pl_device *dev, void *handle, bool is_guess,
                                                        pl_capture_info *info, pl_stream **out)
{
    return is_legacy(handle) || handle == CU_STREAM_PER_THREAD
               ? get_default(dev, handle, info, out)
               : get_ordinary(dev, handle, is_guess, info, out);
}

pl_stream *pl_stream_legacy(const pl_device *dev)
{
    return atomic_load_explicit(&dev->streams.legacy, memory_order_acquire);
}

static inline pleat_status get(pl_device *dev, void *handle, bool is_guess, pl_capture_info *info,
                               pl_stream **out)
{
    pl_stream *legacy = pl_stream_legacy(dev);
    info->is_asked = false;
    if (!is_legacy(handle) || legacy == NULL) {
        return get_other(dev, handle, is_guess, info, out);
    }
    *out = legacy;
    return PLEAT_OK;
}

pleat_status pl_stream_get(pl_device *dev, void *handle, pl_stream **out)
{
    pl_capture_info info;
    return get(dev, handle, false, &info, out);
}

pleat_status pl_stream_get_asked(pl_device *dev, void *handle, pl_capture_info *info,
                                 pl_stream **out)
{
    return get(dev, handle, false, info, out);
}

pleat_status pl_stream_guess(pl_device *dev, void *handle, pl_stream **out)
{
    pl_capture_info info;
    return get(dev, handle, true, &info, out);
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

pl_stream *pl_stream_known_told(const pl_device *dev, const void *handle)
{
    pl_stream *known = dev->trusts_handles ? pl_stream_known(dev, handle) : NULL;
    if (known == NULL || __builtin_expect(pl_stream_is_trusted(known), true)) {
        return known;
    }
    pl_stream_put(known);
    return NULL;
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
