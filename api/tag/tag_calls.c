/* tag_calls.c - the public calls of pleat_tag.h about a device: they check arguments and word
 * refusals. Holds no lock. */
#include <string.h>

#include "api/base/sized.h"
#include "api/instance/callback.h"
#include "api/instance/instance.h"
#include "api/instance/oom.h"
#include "api/instance/short.h"
#include "api/parts/tag.h"
#include "api/tag/scope.h"
#include "vmm/driver.h"

/* A tag that nobody has used yet is a slip of the pen. */
static pleat_status find_tag(const char *tag, unsigned *out)
{
    *out = pl_tag_find(tag);
    if (*out != 0) {
        return PLEAT_OK;
    }
    const char *first = pl_tag_text(1);
    return pl_error_set(PLEAT_EINVAL, 0, "there is no tag \"%s\"; %s%s%s", tag ? tag : "",
                        first ? "the first one in use is \"" : "none was used yet",
                        first ? first : "", first ? "\"" : "");
}

/* The driver's detail, where pl_error_set does not add the detail itself. */
static const char *detail_of(pleat_status st)
{
    bool is_own = st == PLEAT_EASLEEP || st == PLEAT_EWRITE || st == PLEAT_ENOTSUP;
    return is_own ? pl_driver_last_error()->detail : "";
}

static pleat_status refuse(const pl_gpu *gpu, const char *tag, pleat_status st, const char *what)
{
    if (st == PLEAT_ENOTSUP && !gpu->ops->tags) {
        return pl_error_set(st, 0, "device %d: %s knows no tags; allocator:pleat does",
                            gpu->ordinal, gpu->ops->name);
    }
    const char *detail = detail_of(st);
    return pl_error_set(st, 0, "device %d, tag \"%s\": %s: %s%s%s", gpu->ordinal, tag, what,
                        pleat_status_text(st), detail[0] != '\0' ? "; " : "", detail);
}

/* The tag's heap, made if need be. ENOTSUP: the allocator has none. */
static pleat_status have_heap(pl_gpu *gpu, unsigned tag, pl_keeper **out)
{
    pleat_status st = pl_tags_heap(gpu, tag, out);
    return st == PLEAT_OK && !*out ? PLEAT_ENOTSUP : st;
}

/* ---- figures and limits ---------------------------------------------------------------------- */

static void read_figures(pl_gpu *gpu, unsigned tag, pleat_tag_info *out)
{
    pl_keeper *heap = pl_tags_find(&gpu->tags, tag);
    pl_heap_figures f = { .n_sleeps = 0 };
    if (heap) {
        gpu->ops->tags->read(gpu->allocator, heap, &f);
    }
    out->blocks = f.blocks;
    out->allocated_bytes = f.allocated_bytes;
    out->requested_bytes = f.requested_bytes;
    out->resident_bytes = f.resident_bytes;
    out->asleep_bytes = f.asleep_bytes;
    out->kept_bytes = f.kept_bytes;
    out->limit_bytes = f.limit_bytes;
    out->n_sleeps = f.n_sleeps;
    out->is_asleep = f.is_asleep;
}

pleat_status pleat_tag_query_sized(pleat handle, int device, const char *tag, size_t out_bytes,
                                   pleat_tag_info *out)
{
    static const pl_sized kind = PL_SIZED_TAG_INFO;
    pleat_tag_info figures;
    unsigned number;
    memset(&figures, 0, sizeof figures);
    pleat_status st = pl_sized_check(&kind, out_bytes, out);
    st = st == PLEAT_OK ? find_tag(tag, &number) : st;
    if (st != PLEAT_OK) {
        return st;
    }
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    st = pl_use_check_device(use.instance, device);
    pl_gpu *gpu = st == PLEAT_OK ? pl_use_find_gpu(use.instance, device) : NULL;
    if (gpu) {
        read_figures(gpu, number, &figures);
    }
    pl_use_leave(use);
    if (st == PLEAT_OK) {
        pl_sized_write(&kind, &figures, out_bytes, out);
    }
    return st;
}

pleat_status pleat_tag_set_limit(pleat handle, int device, const char *tag, uint64_t bytes)
{
    pl_use use;
    unsigned number;
    pl_keeper *heap;
    pleat_status st = pl_tag_get(tag, &number);
    if (st != PLEAT_OK) {
        return st;
    }
    pl_gpu *gpu = pl_use_open(handle, device, &use);
    if (!gpu) {
        return pl_error_status();
    }
    st = have_heap(gpu, number, &heap);
    if (st == PLEAT_OK) {
        gpu->ops->tags->set_limit(gpu->allocator, heap, bytes);
    } else {
        refuse(gpu, tag, st, "it cannot be limited");
    }
    pl_use_leave(use);
    return st;
}

/* The allocator's own copies touch any byte of a tag; what is unmapped loses its contents if they
 * are not kept. */
static void tell_begin(const pl_gpu *gpu, bool is_discarding)
{
    pl_gpu_tell(gpu, PL_TOLD_OWN, 0, 1);
    pl_gpu_tell(gpu, PL_TOLD_DISCARD, 0, is_discarding);
}

static void tell_end(const pl_gpu *gpu, pleat_status st)
{
    pl_gpu_tell(gpu, PL_TOLD_DISCARD, st != PLEAT_OK, 0); /* undone: the contents are back */
    pl_gpu_tell(gpu, PL_TOLD_OWN, 0, 0);
}

/* ---- sleep and wake -------------------------------------------------------------------------- */

static void tell(const pl_slept *slept, size_t out_bytes, pleat_slept *out)
{
    static const pl_sized kind = PL_SIZED_SLEPT;
    pleat_slept told = { slept->bytes, slept->shared_bytes, slept->kept_bytes, slept->left_bytes };
    if (out) {
        pl_sized_write(&kind, &told, out_bytes, out);
    }
}

static pleat_status check(const char *tag, size_t out_bytes, const pleat_slept *out,
                          unsigned *number)
{
    static const pl_sized kind = PL_SIZED_SLEPT;
    pleat_status st = out ? pl_sized_check(&kind, out_bytes, out) : PLEAT_OK;
    return st == PLEAT_OK ? find_tag(tag, number) : st;
}

static pleat_status check_how(pleat_sleep how, const char *folder, pl_sleep_how *out)
{
    bool is_file = how == PLEAT_SLEEP_FILE;
    if (how != PLEAT_SLEEP_DISCARD && how != PLEAT_SLEEP_HOST && !is_file) {
        return pl_error_set(PLEAT_EINVAL, 0, "pleat_tag_sleep: `how` is %d", (int)how);
    }
    if (is_file != (folder != NULL)) {
        return pl_error_set(PLEAT_EINVAL, 0,
                            "pleat_tag_sleep: a folder goes with PLEAT_SLEEP_FILE");
    }
    *out = (pl_sleep_how){ .is_kept = how != PLEAT_SLEEP_DISCARD, .folder = folder };
    return PLEAT_OK;
}

pleat_status pleat_tag_sleep_sized(pleat handle, int device, const char *tag, pleat_sleep how,
                                   const char *folder, size_t out_bytes, pleat_slept *out)
{
    pl_use use;
    unsigned number;
    pl_keeper *heap;
    pl_sleep_how wanted;
    pl_slept slept = { .bytes = 0 };
    pleat_status st = check(tag, out_bytes, out, &number);
    st = st == PLEAT_OK ? check_how(how, folder, &wanted) : st;
    pl_gpu *gpu = st == PLEAT_OK ? pl_use_open(handle, device, &use) : NULL;
    if (!gpu) {
        return pl_error_status();
    }
    st = have_heap(gpu, number, &heap);
    tell_begin(gpu, !wanted.is_kept);
    st = st == PLEAT_OK ? gpu->ops->tags->sleep(gpu->allocator, heap, &wanted, &slept) : st;
    tell_end(gpu, st);
    pl_gpu_debug_walk(gpu);
    if (st == PLEAT_OK) {
        tell(&slept, out_bytes, out);
    } else {
        refuse(gpu, tag, st, "it cannot go to sleep");
    }
    pl_use_leave(use);
    return st;
}

enum { MAX_ROUNDS = 64 };

static pleat_status wake_once(pl_gpu *gpu, pl_keeper *heap, uint64_t most_bytes, pl_slept *out)
{
    tell_begin(gpu, false);
    pleat_status st = gpu->ops->tags->wake(gpu->allocator, heap, most_bytes, out);
    tell_end(gpu, PLEAT_OK);
    return st;
}

/* The application is asked for memory as long as the callback frees some. */
static pleat_status wake(pl_gpu *gpu, pl_keeper *heap, uint64_t most_bytes, pl_slept *out)
{
    pl_driver_clear_error();
    pleat_status st = wake_once(gpu, heap, most_bytes, out);
    for (unsigned i = 0; i < MAX_ROUNDS && st == PLEAT_ENOMEM_DEVICE; i++) {
        bool has_freed = pl_callback_pressure(gpu->instance, gpu->ordinal, out->needed_bytes);
        if (pl_use_is_forked(gpu->instance)) {
            return PLEAT_EFORKED;
        }
        if (!has_freed) {
            break;
        }
        pl_driver_clear_error();
        st = wake_once(gpu, heap, most_bytes, out);
    }
    return st;
}

/* If memory is short: the verdict and numbers of a request for the missing bytes. */
static pleat_status refuse_wake(pl_gpu *gpu, const char *tag, pleat_status st,
                                uint64_t needed_bytes)
{
    bool is_short = st == PLEAT_ENOMEM_DEVICE || st == PLEAT_EPENDING;
    pleat_verdict verdict = PLEAT_VERDICT_NONE;
    pl_driver_error driver = *pl_driver_last_error();
    char sentence[PL_ERROR_TEXT_BYTES];
    pl_text text;
    pl_text_init(&text, sentence, sizeof sentence);
    pl_text_add(&text, "device %d, tag \"%s\": it cannot wake, and sleeps on: ", gpu->ordinal, tag);
    if (is_short) {
        const pl_want w = { .gpu = gpu, .bytes = needed_bytes };
        verdict = pl_oom_explain(&w, st, PLEAT_ENOTSUP, &driver, &text);
    } else {
        const char *detail = detail_of(st);
        pl_text_add(&text, "%s%s%s", pleat_status_text(st), detail[0] != '\0' ? "; " : "", detail);
    }
    return pl_error_set_verdict(st, is_short ? needed_bytes : 0, verdict, sentence, &driver);
}

pleat_status pleat_tag_wake_sized(pleat handle, int device, const char *tag, uint64_t most_bytes,
                                  size_t out_bytes, pleat_slept *out)
{
    pl_use use;
    unsigned number;
    pl_slept slept = { .bytes = 0 };
    pleat_status st = check(tag, out_bytes, out, &number);
    pl_gpu *gpu = st == PLEAT_OK ? pl_use_open(handle, device, &use) : NULL;
    if (!gpu) {
        return pl_error_status();
    }
    pl_keeper *heap = pl_tags_find(&gpu->tags, number);
    st = heap ? wake(gpu, heap, most_bytes, &slept) : PLEAT_OK;
    if (st != PLEAT_EFORKED) {
        pl_gpu_debug_walk(gpu);
    }
    if (st == PLEAT_OK) {
        tell(&slept, out_bytes, out);
    } else if (st == PLEAT_EFORKED) {
        pl_short_refuse_child();
    } else {
        refuse_wake(gpu, tag, st, slept.needed_bytes);
    }
    pl_use_leave(use);
    return st;
}
