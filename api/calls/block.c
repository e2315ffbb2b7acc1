/* block.c - the hot calls: allocate, free, record a stream, look up a pointer.
 *
 * Each call enters the instance, finds device and stream, and calls the allocator. Cold functions
 * explain failures. Holds no lock. */
#include "api/calls/block.h"

#include "api/base/sized.h"
#include "api/instance/short.h"
#include "api/instance/whereabouts.h"
#include "api/tag/scope.h"
#include "vmm/base/cancel.h"
#include "vmm/driver.h"
#include "vmm/streams/stream.h"

static const size_t most_bytes = (size_t)1 << 60;

/* ---- why something failed ---- */

__attribute__((cold, noinline)) static pleat_status refuse_size(size_t bytes, const void *out)
{
    if (!out) {
        return pl_error_set(PLEAT_EINVAL, bytes, "pleat_block_alloc: `out` is NULL");
    }
    if (bytes == 0) {
        return pl_error_set(PLEAT_EINVAL, 0, "a block of zero bytes was requested");
    }
    return pl_error_set(PLEAT_ESIZE, bytes,
                        "%llu bytes were requested: more than 2^60, which no device holds",
                        (unsigned long long)bytes);
}

/* `n_errors`, in this file: pl_driver_n_errors at the beginning of the call. */
__attribute__((cold, noinline)) static pleat_status refuse_stream(const pl_gpu *gpu, void *stream,
                                                                  uint64_t n_errors, bool is_free,
                                                                  pleat_status st)
{
    const char *way_out = "";
    if (is_free && pl_stream_is_none(st)) {
        way_out = "; if it was destroyed, free the block on another stream, such as NULL, and next "
                  "time call pleat_stream_retire before a stream is destroyed";
    }
    pl_driver_clear_error_before(n_errors);
    return pl_error_set(
        st, 0, "device %d: the stream %p cannot be used: %s%s", gpu->ordinal, stream,
        st == PLEAT_EDRIVER ? "the driver does not know it" : pleat_status_text(st), way_out);
}

__attribute__((cold, noinline)) static pleat_status refuse_pointer(pl_instance *instance,
                                                                   int device, pleat_devptr ptr,
                                                                   pleat_status st)
{
    char where[192];
    pl_text text;
    pl_text_init(&text, where, sizeof where);
    if (ptr == 0) {
        return pl_error_set(PLEAT_EINVAL, 0, "the pointer is NULL");
    }
    if (st == PLEAT_EFOREIGN) {
        pl_whereabouts_say(instance, device, ptr, &text);
        return pl_error_set(st, 0, "no live block of device %d is at 0x%llx%s", device,
                            (unsigned long long)ptr, where);
    }
    return pl_error_set(st, 0, "0x%llx on device %d: %s", (unsigned long long)ptr, device,
                        pleat_status_text(st));
}

__attribute__((cold, noinline)) static pleat_status refuse_block(const pl_gpu *gpu,
                                                                 pleat_devptr ptr, void *stream,
                                                                 uint64_t n_errors, bool is_free,
                                                                 pleat_status st)
{
    if (st == PLEAT_ESTREAM) { /* a stream known by its handle only, and gone */
        return refuse_stream(gpu, stream, n_errors, is_free, st);
    }
    pl_driver_clear_error_before(n_errors);
    return refuse_pointer(gpu->instance, gpu->ordinal, ptr, st);
}

/* For a device that was never used, or address 0. */
__attribute__((cold, noinline)) static pleat_status refuse_unknown(pl_instance *instance,
                                                                   int device, pleat_devptr ptr)
{
    pleat_status st = pl_use_check_device(instance, device);
    return st == PLEAT_OK ? refuse_pointer(instance, device, ptr, PLEAT_EFOREIGN) : st;
}

/* ---- with stacks ---- */

__attribute__((cold, noinline)) static pleat_status free_with_stack(pl_gpu *gpu, pleat_devptr ptr,
                                                                    pl_stream *stream)
{
    pl_stack_begin();
    pleat_status st = gpu->ops->free(gpu->allocator, ptr, stream);
    pl_stack_end();
    return st;
}

static inline pleat_status free_to(pl_gpu *gpu, pleat_devptr ptr, pl_stream *stream)
{
    if (pl_history_wants_stack(&gpu->history, PLEAT_HISTORY_FREE_FRAMES)) {
        return free_with_stack(gpu, ptr, stream);
    }
    return gpu->ops->free(gpu->allocator, ptr, stream);
}

/* ---- the calls ---- */

static inline uint64_t count_errors(void)
{
    return atomic_load_explicit(&pl_driver_n_errors, memory_order_relaxed);
}

static inline bool is_likely(bool condition)
{
    return __builtin_expect(condition, 1);
}

/* Turns cancellation off once for the whole call, since asking the driver about a stream would turn
 * it off several times. For the default streams (handles 0, 1 and 2) that is not worth it: at most
 * the current context is asked for. */
enum { NO_CANCEL = -1, N_LEGACY = 2, N_DEFAULT_STREAMS = 3 };

static inline int cancel_off(const void *stream)
{
    return (uintptr_t)stream < N_DEFAULT_STREAMS ? NO_CANCEL : pl_cancel_off();
}

static inline void cancel_restore(int cancel)
{
    if (cancel != NO_CANCEL) {
        pl_cancel_restore(cancel);
    }
}

static inline void put_stream(pl_stream *on, const void *stream)
{
    if ((uintptr_t)stream >= N_DEFAULT_STREAMS) {
        pl_stream_put(on);
    }
}

static void debug_walk(pl_gpu *gpu, pleat_status st)
{
    if (st != PLEAT_EFORKED) {
        pl_gpu_debug_walk(gpu);
    }
}

static inline pleat_status alloc_on(const pl_want *w, uint64_t n_errors, pleat_devptr *out)
{
    pleat_status st = pl_want_ask(w, out);
    return is_likely(st == PLEAT_OK) ? st : pl_short_alloc(w, n_errors, st, out);
}

/* Somebody has begun a route: the request may belong to a private pool. Or the thread has a tag. */
__attribute__((cold, noinline)) static pleat_status alloc_by_route(pl_want w, void *stream,
                                                                   uint64_t n_errors,
                                                                   pleat_devptr *out)
{
    pl_pools *pools = &w.gpu->pools;
    pl_pool *pool = NULL;
    if (pl_pools_are_routed(pools) && pl_pools_route(pools, stream, &pool) == PLEAT_EFORKED) {
        return pl_short_refuse_child();
    }
    if (!pool) {
        pleat_status st = pl_tags_heap(w.gpu, pl_scopes_self.tag, &w.in);
        return st == PLEAT_OK ? alloc_on(&w, n_errors, out) : pl_short_alloc(&w, n_errors, st, out);
    }
    w.in = pl_pool_private(pool);
    pleat_status st = alloc_on(&w, n_errors, out);
    if (st != PLEAT_EFORKED) { /* a child touches nothing of its parent */
        pl_pool_leave(pools, pool);
    }
    return st;
}

static inline pleat_status alloc_routed(const pl_want *w, void *stream, uint64_t n_errors,
                                        pleat_devptr *out)
{
    if (pl_pools_are_routed(&w->gpu->pools) || pl_scopes_self.tag != 0) {
        return alloc_by_route(*w, stream, n_errors, out);
    }
    return alloc_on(w, n_errors, out);
}

/* The general path of alloc_block: any stream, any pool, a device that may not be open yet. */
static __attribute__((noinline)) pleat_status alloc_generally(pl_instance *instance, int device,
                                                              pl_want w, void *stream,
                                                              uint64_t n_errors, pleat_devptr *out)
{
    int cancel = cancel_off(stream);
    w.gpu = pl_use_gpu(instance, device);
    pl_capture_info info;
    pleat_status st = w.gpu ? pl_stream_get_asked(w.gpu->dev, stream, &info, &w.stream)
                            : pl_error_status();
    if (is_likely(w.gpu && st == PLEAT_OK)) {
        w.asked = info.is_asked ? &info : NULL;
        st = alloc_routed(&w, stream, n_errors, out);
        put_stream(w.stream, stream);
        debug_walk(w.gpu, st);
    } else if (w.gpu) {
        refuse_stream(w.gpu, stream, n_errors, false, st);
    }
    cancel_restore(cancel);
    return st;
}

/* The stream of a simple call; else NULL. Simple: the driver need not identify the stream, and the
 * allocator alone decides, without route or stack. */
static inline pl_stream *plain_stream(const pl_gpu *gpu, const void *stream, unsigned flag)
{
    if (pl_pools_are_routed(&gpu->pools) || pl_history_wants_stack(&gpu->history, flag)) {
        return NULL;
    }
    return is_likely((uintptr_t)stream < N_LEGACY) ? pl_stream_legacy(gpu->dev)
                                                   : pl_stream_known_told(gpu->dev, stream);
}

/* The path that calls this makes a pl_want only after a failure. */
__attribute__((cold, noinline)) static pleat_status alloc_short(pl_want w, uint64_t n_errors,
                                                                pleat_status st, pleat_devptr *out)
{
    return pl_short_alloc(&w, n_errors, st, out);
}

static inline __attribute__((always_inline)) pleat_status alloc_block(pleat handle, int device,
                                                                      size_t bytes, void *stream,
                                                                      bool is_patient,
                                                                      pleat_devptr *out)
{
    if (bytes - 1 >= most_bytes || !out) { /* zero wraps around */
        return refuse_size(bytes, out);
    }
    uint64_t n_errors = count_errors();
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    pl_gpu *gpu = pl_use_find_gpu(use.instance, device);
    bool has_tag = pl_scopes_self.tag != 0;
    pl_stream *on = gpu && is_likely(!has_tag) ? plain_stream(gpu, stream, PLEAT_HISTORY_FRAMES)
                                               : NULL;
    pleat_status st;
    if (is_likely(on != NULL)) {
        st = gpu->ops->alloc(gpu->allocator, bytes, on, out);
        if (!is_likely(st == PLEAT_OK)) {
            pl_want w = { .gpu = gpu, .bytes = bytes, .stream = on, .is_patient = is_patient };
            st = alloc_short(w, n_errors, st, out);
        }
        put_stream(on, stream);
        debug_walk(gpu, st);
    } else {
        pl_want w = { .bytes = bytes, .is_patient = is_patient };
        st = alloc_generally(use.instance, device, w, stream, n_errors, out);
    }
    pl_use_leave(use);
    return st;
}

pleat_status pleat_block_alloc(pleat handle, int device, size_t bytes, void *stream,
                               pleat_devptr *out)
{
    return alloc_block(handle, device, bytes, stream, false, out);
}

pleat_status pl_block_alloc_patiently(pleat handle, int device, size_t bytes, void *stream,
                                      pleat_devptr *out)
{
    return alloc_block(handle, device, bytes, stream, true, out);
}

/* The stream of a call that asks for no memory. */
static inline pleat_status find_stream(const pl_gpu *gpu, void *stream, pl_stream **out)
{
    return is_likely(gpu->ops->takes_guesses) ? pl_stream_guess(gpu->dev, stream, out)
                                              : pl_stream_get(gpu->dev, stream, out);
}

/* Free or record a block that should exist, on any stream. A device that was never used has none,
 * and is not opened. */
static __attribute__((noinline)) pleat_status with_block(pl_instance *instance, int device,
                                                         pleat_devptr ptr, void *stream,
                                                         uint64_t n_errors, bool is_free)
{
    pl_stream *on;
    int cancel = cancel_off(stream);
    pl_gpu *gpu = pl_use_find_gpu(instance, device);
    bool is_known = gpu && ptr != 0;
    pleat_status st = is_known ? find_stream(gpu, stream, &on)
                               : refuse_unknown(instance, device, ptr);
    if (is_likely(is_known && st == PLEAT_OK)) {
        st = is_free ? free_to(gpu, ptr, on) : gpu->ops->record_stream(gpu->allocator, ptr, on);
        if (!is_likely(st == PLEAT_OK)) {
            refuse_block(gpu, ptr, stream, n_errors, is_free, st);
        }
        put_stream(on, stream);
        debug_walk(gpu, st);
    } else if (is_known) {
        refuse_stream(gpu, stream, n_errors, is_free, st);
    }
    cancel_restore(cancel);
    return st;
}

pleat_status pleat_block_free(pleat handle, int device, pleat_devptr ptr, void *stream)
{
    uint64_t n_errors = count_errors();
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    pl_gpu *gpu = pl_use_find_gpu(use.instance, device);
    pl_stream *on = gpu && ptr != 0 ? plain_stream(gpu, stream, PLEAT_HISTORY_FREE_FRAMES) : NULL;
    pleat_status st;
    if (is_likely(on != NULL)) {
        st = gpu->ops->free(gpu->allocator, ptr, on);
        if (!is_likely(st == PLEAT_OK)) {
            refuse_block(gpu, ptr, stream, n_errors, true, st);
        }
        put_stream(on, stream);
        debug_walk(gpu, st);
    } else {
        st = with_block(use.instance, device, ptr, stream, n_errors, true);
    }
    pl_use_leave(use);
    return st;
}

pleat_status pleat_block_record_stream(pleat handle, int device, pleat_devptr ptr, void *stream)
{
    uint64_t n_errors = count_errors();
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    pleat_status st = with_block(use.instance, device, ptr, stream, n_errors, false);
    pl_use_leave(use);
    return st;
}

pleat_status pleat_block_query_sized(pleat handle, int device, pleat_devptr ptr, size_t out_bytes,
                                     pleat_block_info *out)
{
    static const pl_sized kind = PL_SIZED_BLOCK_INFO;
    pleat_block_info info = { 0 };
    pleat_status st = pl_sized_check(&kind, out_bytes, out);
    if (st != PLEAT_OK) {
        return st;
    }
    st = PLEAT_EFOREIGN;
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    pl_gpu *gpu = pl_use_find_gpu(use.instance, device);
    if (gpu && ptr != 0) {
        st = gpu->ops->query(gpu->allocator, ptr, &info);
    }
    if (st == PLEAT_OK) {
        pl_sized_write(&kind, &info, out_bytes, out);
    } else {
        st = refuse_unknown(use.instance, device, ptr);
    }
    pl_use_leave(use);
    return st;
}
