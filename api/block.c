/* block.c - the hot calls: allocate, free, record a stream, look up a pointer.
 *
 * Each enters the instance, finds device and stream and calls the allocator; explaining failures is
 * left to cold functions. Holds no lock. */
#include "api/block.h"

#include "api/callback.h"
#include "api/oom.h"
#include "api/sized.h"
#include "vmm/base/cancel.h"
#include "vmm/base/clock.h"
#include "vmm/base/deadline.h"
#include "vmm/driver.h"
#include "vmm/stream.h"

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

/* `n_errors`, here and below: pl_driver_n_errors at the beginning of the call. */
__attribute__((cold, noinline)) static pleat_status refuse_stream(const pl_gpu *gpu, void *stream,
                                                                  uint64_t n_errors,
                                                                  pleat_status st)
{
    pl_driver_clear_error_before(n_errors);
    return pl_error_set(st, 0, "device %d: the stream %p cannot be used: %s", gpu->ordinal, stream,
                        st == PLEAT_EDRIVER ? "the driver does not know it"
                                            : pleat_status_text(st));
}

static pleat_status refuse_child(void)
{
    return pl_error_set(PLEAT_EFORKED, 0, "a callback forked, and this is the child");
}

/* Finds where else in the instance the address lies, for the text only. */
static void say_whereabouts(pl_instance *instance, int device, pleat_devptr ptr, pl_text *text)
{
    for (int i = 0; i < instance->n_devices; i++) {
        pl_gpu *gpu = pl_use_find_gpu(instance, i);
        pleat_block_info info;
        if (!gpu || gpu->ops->query(gpu->allocator, ptr, &info) != PLEAT_OK) {
            continue;
        }
        if (i != device) {
            pl_text_add(text, "; it belongs to device %d", i);
        } else if (info.base != ptr) {
            pl_text_add(text, "; it lies inside the block that begins at 0x%llx",
                        (unsigned long long)info.base);
        }
        return;
    }
}

__attribute__((cold, noinline)) static pleat_status refuse_pointer(pl_instance *instance,
                                                                   int device, pleat_devptr ptr,
                                                                   pleat_status st)
{
    char where[128];
    pl_text text;
    pl_text_init(&text, where, sizeof where);
    if (ptr == 0) {
        return pl_error_set(PLEAT_EINVAL, 0, "the pointer is NULL");
    }
    if (st == PLEAT_EFOREIGN) {
        say_whereabouts(instance, device, ptr, &text);
    }
    return pl_error_set(st, 0, "0x%llx on device %d: %s%s", (unsigned long long)ptr, device,
                        pleat_status_text(st), where);
}

__attribute__((cold, noinline)) static pleat_status refuse_block(const pl_gpu *gpu,
                                                                 pleat_devptr ptr, void *stream,
                                                                 uint64_t n_errors, pleat_status st)
{
    if (st == PLEAT_ESTREAM) { /* it is known by its handle only, and gone */
        return refuse_stream(gpu, stream, n_errors, st);
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

/* The request, and where it goes. */
typedef struct pl_wish {
    pl_gpu *gpu;
    pl_private *in; /* NULL = the default pool */
    size_t bytes;
    pl_stream *stream;
    const pl_capture_info *asked; /* what the driver has just said of it; NULL = nothing */
    bool is_patient;              /* a request that meets pending memory is repeated */
} pl_wish;

static inline pleat_status ask(const pl_wish *w, pleat_devptr *out)
{
    const pl_allocator_ops *ops = w->gpu->ops;
    if (w->asked != NULL && ops->alloc_asked) {
        return ops->alloc_asked(w->gpu->allocator, w->in, w->bytes, w->stream, w->asked, out);
    }
    if (__builtin_expect(w->in != NULL, 0)) {
        return ops->private_alloc(w->gpu->allocator, w->in, w->bytes, w->stream, out);
    }
    return ops->alloc(w->gpu->allocator, w->bytes, w->stream, out);
}

__attribute__((cold, noinline)) static pleat_status ask_with_stack(const pl_wish *w,
                                                                   pleat_devptr *out)
{
    pl_stack_begin();
    pleat_status st = ask(w, out);
    pl_stack_end();
    return st;
}

static inline pleat_status alloc_from(const pl_wish *w, pleat_devptr *out)
{
    if (pl_history_wants_stack(&w->gpu->history, PLEAT_HISTORY_FRAMES)) {
        return ask_with_stack(w, out);
    }
    return ask(w, out);
}

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

/* ---- memory is short ---- */

static bool is_shortage(pleat_status st)
{
    return st == PLEAT_ENOMEM_DEVICE || st == PLEAT_EPENDING;
}

static void tell_shortage(const pl_wish *w)
{
    pl_gpu *gpu = w->gpu;
    uint64_t free_bytes = 0;
    if (!pl_observer_is_on(&gpu->history.observer)) {
        return;
    }
    (void)pl_device_free_bytes(gpu->dev, &free_bytes); /* stays 0 when the driver cannot tell */
    if (pl_history_wants_stack(&gpu->history, PLEAT_HISTORY_FRAMES)) {
        pl_stack_begin();
    }
    pl_history_tell_oom(&gpu->history, w->bytes, free_bytes, pl_stream_handle(w->stream), w->in);
    pl_stack_end();
}

static pleat_status report_shortage(const pl_wish *w, pleat_status st)
{
    char sentence[PL_ERROR_TEXT_BYTES];
    pl_gpu *gpu = w->gpu;
    pl_driver_error driver = *pl_driver_last_error();
    pl_text text;
    pl_text_init(&text, sentence, sizeof sentence);
    pleat_verdict verdict = pl_oom_explain(gpu, w->bytes, st, &text);
    tell_shortage(w);
    pl_error_set_verdict(st, w->bytes, verdict, sentence, &driver);
    if (st == PLEAT_ENOMEM_DEVICE) {
        pleat_error kept = *pleat_last_error();
        atomic_fetch_add(&gpu->n_ooms, 1);
        pl_error_copy_text(sentence, sizeof sentence);
        pl_callback_oom(gpu->instance, gpu->ordinal, w->bytes, sentence);
        pl_error_restore(&kept, sentence); /* drops the callback's own failures */
    }
    return st;
}

static uint32_t time_left(const pl_wish *w)
{
    return pl_deadline_left(w->gpu->instance->config.options.wait_ms);
}

/* The memory is there, but pends. The allocator has polled, ordered, and waited where it could;
 * where time is left, what is left pends behind captures. Nobody tells when a capture ends, and to
 * wait for this thread's own would be for ever; but other threads go on. */
static pleat_status alloc_pending(const pl_wish *w, pleat_devptr *out)
{
    enum { NS_PER_MS = 1000000, FIRST_NS = NS_PER_MS / 2, MOST_NS = 16 * NS_PER_MS };
    long pause_ns = FIRST_NS;
    pleat_status st = PLEAT_EPENDING;
    for (uint32_t left_ms; st == PLEAT_EPENDING && (left_ms = time_left(w)) > 0;) {
        long left_ns = left_ms < MOST_NS / NS_PER_MS ? (long)left_ms * NS_PER_MS : MOST_NS;
        pl_sleep_ns(pause_ns < left_ns ? pause_ns : left_ns);
        pause_ns = pause_ns * 2 < MOST_NS ? pause_ns * 2 : MOST_NS;
        pl_driver_clear_error();
        st = alloc_from(w, out);
    }
    return st;
}

static uint64_t count_frees(const pl_gpu *gpu)
{
    pleat_stats stats = { 0 };
    gpu->ops->stats(gpu->allocator, &stats);
    return stats.allocation[PLEAT_POOL_ALL].freed;
}

/* Returns what the callback says. Time in which blocks were freed is not the call's: the callback
 * may write gigabytes to a disk. *has_freed: were any? By whom nobody counts; others' help too. */
static bool press(const pl_wish *w, bool *has_freed)
{
    uint64_t n_frees = count_frees(w->gpu);
    uint64_t begin_ms = pl_clock_ms();
    bool says_so = pl_callback_pressure(w->gpu->instance, w->gpu->ordinal, w->bytes);
    if (pl_use_is_forked(w->gpu->instance)) {
        return says_so;
    }
    *has_freed = count_frees(w->gpu) != n_frees;
    if (*has_freed) {
        pl_deadline_extend(pl_clock_ms() - begin_ms);
    }
    return says_so;
}

/* Asks the application for memory as long as blocks are freed, or it says so and time is left. A
 * bound ends it for one that frees a little for ever. */
static pleat_status alloc_pressed(const pl_wish *w, pleat_status st, pleat_devptr *out)
{
    enum { MAX_ROUNDS = 64 };
    pl_instance *instance = w->gpu->instance;
    bool has_freed = true;
    for (unsigned i = 0; i < MAX_ROUNDS && is_shortage(st) && (has_freed || time_left(w) > 0);
         i++) {
        if (!press(w, &has_freed)) {
            break;
        }
        if (pl_use_is_forked(instance)) {
            return refuse_child();
        }
        pl_driver_clear_error();
        st = alloc_from(w, out);
    }
    return st;
}

/* However often the request is made again, it is one call: its earlier waits count. */
static pleat_status alloc_again(const pl_wish *wish, pleat_status st, pleat_devptr *out)
{
    pl_wish w = *wish;
    w.asked = NULL; /* meanwhile a capture may have begun or ended */
    pl_deadline_hold(w.gpu->instance->config.options.wait_ms);
    st = alloc_pressed(&w, st, out);
    if (st == PLEAT_EPENDING && w.is_patient) {
        st = alloc_pending(&w, out);
    }
    pl_deadline_let_go();
    return st;
}

__attribute__((cold, noinline)) static pleat_status alloc_short(const pl_wish *w, uint64_t n_errors,
                                                                pleat_status st, pleat_devptr *out)
{
    pl_driver_clear_error_before(n_errors);
    if (is_shortage(st)) {
        st = alloc_again(w, st, out);
    }
    if (st == PLEAT_OK || st == PLEAT_EFORKED) {
        return st;
    }
    if (is_shortage(st) || st == PLEAT_ENOSPACE_VA) {
        return report_shortage(w, st);
    }
    return pl_error_set(st, w->bytes, "device %d: %llu bytes could not be allocated: %s",
                        w->gpu->ordinal, (unsigned long long)w->bytes, pleat_status_text(st));
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

/* Code further down that may be a cancellation point turns cancellation off itself. When the driver
 * is asked about a stream, that would cost several pairs, so one pair spans the whole call. The
 * default streams (handles 0, 1 and 2) are known without a question and need none. */
enum { NO_CANCEL = -1, N_DEFAULT_STREAMS = 3 };

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

static inline pleat_status alloc_on(const pl_wish *w, uint64_t n_errors, pleat_devptr *out)
{
    pleat_status st = alloc_from(w, out);
    return is_likely(st == PLEAT_OK) ? st : alloc_short(w, n_errors, st, out);
}

/* Somebody has begun a route: the request may belong to a private pool. */
__attribute__((cold, noinline)) static pleat_status alloc_by_route(pl_wish w, void *stream,
                                                                   uint64_t n_errors,
                                                                   pleat_devptr *out)
{
    pl_pools *pools = &w.gpu->pools;
    pl_pool *pool;
    if (pl_pools_route(pools, stream, &pool) == PLEAT_EFORKED) {
        return refuse_child();
    }
    if (!pool) {
        return alloc_on(&w, n_errors, out);
    }
    w.in = pl_pool_private(pool);
    pleat_status st = alloc_on(&w, n_errors, out);
    if (st != PLEAT_EFORKED) { /* a child touches nothing of its parent */
        pl_pool_leave(pools, pool);
    }
    return st;
}

static inline pleat_status alloc_routed(const pl_wish *w, void *stream, uint64_t n_errors,
                                        pleat_devptr *out)
{
    if (pl_pools_are_routed(&w->gpu->pools)) {
        return alloc_by_route(*w, stream, n_errors, out);
    }
    return alloc_on(w, n_errors, out);
}

static inline __attribute__((always_inline)) pleat_status alloc_block(pleat handle, int device,
                                                                      size_t bytes, void *stream,
                                                                      bool is_patient,
                                                                      pleat_devptr *out)
{
    pl_stream *on;
    pl_capture_info info;
    uint64_t n_errors = count_errors();
    if (bytes - 1 >= most_bytes || !out) { /* zero wraps around */
        return refuse_size(bytes, out);
    }
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    int cancel = cancel_off(stream);
    pl_gpu *gpu = pl_use_gpu(use.instance, device);
    pleat_status st = gpu ? pl_stream_get_asked(gpu->dev, stream, &info, &on) : pl_error_status();
    if (is_likely(gpu && st == PLEAT_OK)) {
        const pl_capture_info *asked = info.is_asked ? &info : NULL;
        pl_wish w = { gpu, NULL, bytes, on, asked, is_patient };
        st = alloc_routed(&w, stream, n_errors, out);
        put_stream(on, stream);
        debug_walk(gpu, st);
    } else if (gpu) {
        refuse_stream(gpu, stream, n_errors, st);
    }
    pl_use_leave(use);
    cancel_restore(cancel);
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

/* The stream that a call names which asks for no memory. */
static inline pleat_status find_stream(const pl_gpu *gpu, void *stream, pl_stream **out)
{
    return is_likely(gpu->ops->takes_guesses) ? pl_stream_guess(gpu->dev, stream, out)
                                              : pl_stream_get(gpu->dev, stream, out);
}

/* Free or record a block that should exist. A device that was never used has none and is not
 * opened. */
static inline __attribute__((always_inline)) pleat_status with_block(pleat handle, int device,
                                                                     pleat_devptr ptr, void *stream,
                                                                     bool is_free)
{
    pl_stream *on;
    uint64_t n_errors = count_errors();
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    int cancel = cancel_off(stream);
    pl_gpu *gpu = pl_use_find_gpu(use.instance, device);
    bool is_known = gpu && ptr != 0;
    pleat_status st = is_known ? find_stream(gpu, stream, &on)
                               : refuse_unknown(use.instance, device, ptr);
    if (is_likely(is_known && st == PLEAT_OK)) {
        st = is_free ? free_to(gpu, ptr, on) : gpu->ops->record_stream(gpu->allocator, ptr, on);
        if (!is_likely(st == PLEAT_OK)) {
            refuse_block(gpu, ptr, stream, n_errors, st);
        }
        put_stream(on, stream);
        debug_walk(gpu, st);
    } else if (is_known) {
        refuse_stream(gpu, stream, n_errors, st);
    }
    pl_use_leave(use);
    cancel_restore(cancel);
    return st;
}

pleat_status pleat_block_free(pleat handle, int device, pleat_devptr ptr, void *stream)
{
    return with_block(handle, device, ptr, stream, true);
}

pleat_status pleat_block_record_stream(pleat handle, int device, pleat_devptr ptr, void *stream)
{
    return with_block(handle, device, ptr, stream, false);
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
