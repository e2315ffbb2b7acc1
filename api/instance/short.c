/* short.c - see short.h. Holds no lock. */
#include "api/instance/short.h"

#include "api/instance/callback.h"
#include "api/instance/oom.h"
#include "segments/pleat/space/options.h"
#include "vmm/base/cancel.h"
#include "vmm/base/clock.h"
#include "vmm/base/deadline.h"
#include "vmm/driver.h"
#include "vmm/streams/stream.h"

pleat_status pl_want_ask_with_stack(const pl_want *w, pleat_devptr *out)
{
    pl_stack_begin();
    pleat_status st = pl_want_ask_plainly(w, out);
    pl_stack_end();
    return st;
}

pleat_status pl_short_refuse_child(void)
{
    return pl_error_set(PLEAT_EFORKED, 0, "a callback forked, and this is the child");
}

static bool is_shortage(pleat_status st)
{
    return st == PLEAT_ENOMEM_DEVICE || st == PLEAT_EPENDING;
}

static void tell_shortage(const pl_want *w)
{
    pl_gpu *gpu = w->gpu;
    uint64_t free_bytes = 0;
    if (!atomic_load_explicit(&gpu->history.is_followed, memory_order_relaxed)) {
        return;
    }
    (void)pl_device_free_bytes(gpu->dev, &free_bytes); /* stays 0 when the driver cannot tell */
    if (pl_history_wants_stack(&gpu->history, PLEAT_HISTORY_FRAMES)) {
        pl_stack_begin();
    }
    pl_history_tell_oom(&gpu->history, w->bytes, free_bytes, pl_stream_handle(w->stream), w->in);
    pl_stack_end();
}

/* The verdict and its sentence. moved: how the last compaction ended; PLEAT_OK: well, or there was
 * none. */
static pleat_status report_shortage(const pl_want *w, pleat_status st, pleat_status moved)
{
    char sentence[PL_ERROR_TEXT_BYTES];
    pl_gpu *gpu = w->gpu;
    pl_driver_error driver = *pl_driver_last_error();
    pl_text text;
    pl_text_init(&text, sentence, sizeof sentence);
    pleat_verdict verdict = pl_oom_explain(w, st, moved, &driver, &text);
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

static uint32_t time_left(const pl_want *w)
{
    return pl_deadline_left(w->gpu->instance->config.options.wait_ms);
}

static bool may_compact(const pl_want *w)
{
    return w->gpu->ops == &pl_pleat_ops &&
           pl_pleat_own(&w->gpu->instance->config.options).when_short == PL_SHORT_COMPACT;
}

/* The allocator answered `st`. If memory is short, and the program lets pleat move live memory, do
 * so once, and ask again. *moved: why nothing was moved, or PLEAT_OK. The
 * time of the move is not the call's, as the move waits for all work of the device. */
static pleat_status compact_and_ask(const pl_want *w, pleat_status st, pleat_status *moved,
                                    pleat_devptr *out)
{
    pleat_compaction told = { .n_split = 0 };
    uint64_t begin_ms = pl_clock_ms();
    if (!is_shortage(st) || !may_compact(w)) {
        return st;
    }
    *moved = pl_gpu_compact(w->gpu, w->bytes, &told);
    pl_deadline_extend(pl_clock_ms() - begin_ms);
    pl_driver_clear_error();
    return pl_want_ask(w, out); /* the reserve is open now, whether memory has moved or not */
}

/* The memory is there, but pends. The allocator has polled, ordered and waited where possible. If
 * time is left, the memory still pending waits for captures. Nobody reports the end of a capture.
 * No capture of this thread can end during this call, but other threads may end captures. */
static pleat_status alloc_pending(const pl_want *w, pleat_devptr *out)
{
    enum { NS_PER_MS = 1000000, FIRST_NS = NS_PER_MS / 2, MOST_NS = 16 * NS_PER_MS };
    long pause_ns = FIRST_NS;
    pleat_status st = PLEAT_EPENDING;
    for (uint32_t left_ms; st == PLEAT_EPENDING && (left_ms = time_left(w)) > 0;) {
        long left_ns = left_ms < MOST_NS / NS_PER_MS ? (long)left_ms * NS_PER_MS : MOST_NS;
        pl_sleep_ns(pause_ns < left_ns ? pause_ns : left_ns);
        pause_ns = pause_ns * 2 < MOST_NS ? pause_ns * 2 : MOST_NS;
        pl_driver_clear_error();
        st = pl_want_ask(w, out);
    }
    return st;
}

static uint64_t count_frees(const pl_gpu *gpu)
{
    pleat_stats stats = { 0 };
    gpu->ops->stats(gpu->allocator, &stats);
    return stats.allocation[PLEAT_SIZES_ALL].freed;
}

/* Returns the callback's result. The time of a callback that freed blocks does not count for the
 * call: the callback may write gigabytes to a disk. *has_freed: did anybody free blocks meanwhile?
 * Blocks that other threads freed help, too. */
static bool press(const pl_want *w, bool *has_freed)
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

/* Asks the application for memory while blocks are freed, or while the callback reports success and
 * time is left. The bound stops a callback that frees a little for ever. */
static pleat_status alloc_pressed(const pl_want *w, pleat_status st, pleat_status *moved,
                                  pleat_devptr *out)
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
            return pl_short_refuse_child();
        }
        pl_driver_clear_error();
        st = compact_and_ask(w, pl_want_ask(w, out), moved, out);
    }
    return st;
}

/* All repetitions of a request are one call: earlier waits count. Live memory moves before the
 * program is asked to free some. */
static pleat_status alloc_again(const pl_want *want, pleat_status st, pleat_status *moved,
                                pleat_devptr *out)
{
    pl_want w = *want;
    w.asked = NULL; /* meanwhile a capture may have begun or ended */
    pl_deadline_hold(w.gpu->instance->config.options.wait_ms);
    st = compact_and_ask(&w, st, moved, out);
    st = is_shortage(st) ? alloc_pressed(&w, st, moved, out) : st;
    if (st == PLEAT_EPENDING && w.is_patient) {
        st = alloc_pending(&w, out);
    }
    pl_deadline_let_go();
    return st;
}

pleat_status pl_short_alloc(const pl_want *w, uint64_t n_errors, pleat_status st, pleat_devptr *out)
{
    pleat_status moved = PLEAT_OK;
    pl_driver_clear_error_before(n_errors);
    if (is_shortage(st)) {
        st = alloc_again(w, st, &moved, out);
    }
    if (st == PLEAT_OK || st == PLEAT_EFORKED) {
        return st;
    }
    if (is_shortage(st) || st == PLEAT_ENOSPACE_VA) {
        return report_shortage(w, st, moved);
    }
    const char *tag = st == PLEAT_EASLEEP ? pl_tags_name(&w->gpu->tags, w->in) : NULL;
    if (tag) {
        return pl_error_set(
            st, w->bytes,
            "device %d: %llu bytes could not be allocated: the tag \"%s\" is asleep; "
            "wake it first (%s)",
            w->gpu->ordinal, (unsigned long long)w->bytes, tag,
            w->is_patient ? "pleat.torch.wake" : "pleat_tag_wake");
    }
    return pl_error_set(st, w->bytes, "device %d: %llu bytes could not be allocated: %s",
                        w->gpu->ordinal, (unsigned long long)w->bytes, pleat_status_text(st));
}
