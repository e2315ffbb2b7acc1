/* buffer.c - the public calls of pleat_buffer.h.
 *
 * Each call finds device and stream, asks the allocator, and explains a refusal. Holds no lock. */
#include "api/base/sized.h"
#include "api/instance/short.h"
#include "api/instance/whereabouts.h"
#include "api/tag/scope.h"
#include "vmm/base/cancel.h"
#include "vmm/driver.h"
#include "vmm/streams/stream.h"

#define MOST_BYTES (UINT64_C(1) << 60)

/* ---- create ---------------------------------------------------------------------------------- */

static pleat_status refuse_asleep(const pl_gpu *gpu, const char *tag, uint64_t bytes,
                                  const char *what)
{
    return pl_error_set(PLEAT_EASLEEP, bytes,
                        "device %d: the tag \"%s\" sleeps and %s; wake it first (pleat_tag_wake)",
                        gpu->ordinal, tag, what);
}

static pleat_status create(pl_gpu *gpu, uint64_t most_bytes, uint64_t page_bytes,
                           uint64_t align_bytes, pleat_devptr *out)
{
    if (!gpu->ops->buffers) {
        return pl_error_set(PLEAT_ENOTSUP, 0,
                            "device %d: %s has no buffers that grow in place; allocator:pleat has",
                            gpu->ordinal, gpu->ops->name);
    }
    pl_keeper *heap;
    int cancel = pl_cancel_off();
    pleat_status st = pl_tags_heap(gpu, pl_scopes_self.tag, &heap);
    if (st == PLEAT_OK) {
        st = gpu->ops->buffers->open(gpu->allocator, heap, most_bytes, page_bytes, align_bytes,
                                     out);
    }
    pl_cancel_restore(cancel);
    if (st == PLEAT_OK) {
        pl_gpu_tell(gpu, PL_TOLD_JOIN, *out, most_bytes);
        pl_gpu_debug_walk(gpu);
        return st;
    }
    if (st == PLEAT_EASLEEP) {
        return refuse_asleep(gpu, pl_tag_text(pl_scopes_self.tag), most_bytes, "gets no buffers");
    }
    return pl_error_set(st, most_bytes,
                        "device %d: a buffer of at most %llu bytes could not be made: %s",
                        gpu->ordinal, (unsigned long long)most_bytes, pleat_status_text(st));
}

pleat_status pleat_buffer_create(pleat handle, int device, uint64_t most_bytes, uint64_t page_bytes,
                                 pleat_devptr *out)
{
    return pleat_buffer_create_aligned(handle, device, most_bytes, page_bytes, 0, out);
}

pleat_status pleat_buffer_create_aligned(pleat handle, int device, uint64_t most_bytes,
                                         uint64_t page_bytes, uint64_t align_bytes,
                                         pleat_devptr *out)
{
    if (!out || most_bytes == 0) {
        return pl_error_set(PLEAT_EINVAL, most_bytes, "pleat_buffer_create: %s",
                            out ? "a buffer of at most 0 bytes was asked for" : "`out` is NULL");
    }
    if (most_bytes > MOST_BYTES || page_bytes > MOST_BYTES) {
        return pl_error_set(PLEAT_ESIZE, most_bytes, "a buffer has at most 2^60 bytes");
    }
    if ((align_bytes & (align_bytes - 1)) != 0 || align_bytes > MOST_BYTES) {
        return pl_error_set(PLEAT_EINVAL, most_bytes,
                            "pleat_buffer_create_aligned: an alignment is 0 or a power of two up "
                            "to 2^60, not %llu",
                            (unsigned long long)align_bytes);
    }
    pl_driver_clear_error();
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    pl_gpu *gpu = pl_use_gpu(use.instance, device);
    pleat_status st = gpu ? create(gpu, most_bytes, page_bytes, align_bytes, out)
                          : pl_error_status();
    pl_use_leave(use);
    return st;
}

/* ---- change ---------------------------------------------------------------------------------- */

/* The bytes that the change may need, for the text of a refusal. */
static size_t bytes_of(const pl_gpu *gpu, const pl_buffer_change *change)
{
    pleat_buffer_info info = { 0 };
    (void)gpu->ops->buffers->query(gpu->allocator, change->base, &info);
    uint64_t end = change->offset + change->bytes;
    if (change->what != PL_BUFFER_RESIZE) {
        return change->bytes;
    }
    return end > info.bytes ? end - info.bytes : 0;
}

/* Where the buffer's pages are counted, and limited. */
static pl_keeper *room_of(const pl_gpu *gpu, const pl_buffer_change *change)
{
    pleat_buffer_info info = { 0 };
    (void)gpu->ops->buffers->query(gpu->allocator, change->base, &info);
    return info.tag ? pl_tags_find(&gpu->tags, pl_tag_find(info.tag)) : NULL;
}

static pleat_status refuse_range(const pl_gpu *gpu, const pl_buffer_change *change)
{
    pleat_buffer_info info = { 0 };
    (void)gpu->ops->buffers->query(gpu->allocator, change->base, &info);
    return pl_error_set(PLEAT_EINVAL, change->bytes,
                        "device %d: %llu bytes from %llu on are beyond the most that the buffer "
                        "0x%llx was made for, %llu bytes",
                        gpu->ordinal, (unsigned long long)change->bytes,
                        (unsigned long long)change->offset, (unsigned long long)change->base,
                        (unsigned long long)info.most_bytes);
}

static pleat_status refuse(const pl_gpu *gpu, const pl_buffer_change *change, void *stream,
                           pleat_status st)
{
    const char *why = st == PLEAT_EFOREIGN ? "no buffer begins there" : pleat_status_text(st);
    pleat_buffer_info info = { 0 };
    char where[192];
    pl_text text;
    pl_text_init(&text, where, sizeof where);
    if (st == PLEAT_EINVAL) {
        return refuse_range(gpu, change);
    }
    if (st == PLEAT_EASLEEP &&
        gpu->ops->buffers->query(gpu->allocator, change->base, &info) == PLEAT_OK && info.tag) {
        return refuse_asleep(gpu, info.tag, change->bytes, "its buffers get no pages");
    }
    if (st == PLEAT_EFOREIGN) {
        pl_whereabouts_say(gpu->instance, gpu->ordinal, change->base, &text);
    }
    return pl_error_set(st, change->bytes, "device %d, buffer 0x%llx, stream %p: %s%s",
                        gpu->ordinal, (unsigned long long)change->base, stream, why, where);
}

static bool is_explained(pleat_status st)
{
    return st == PLEAT_ENOMEM_DEVICE || st == PLEAT_EPENDING || st == PLEAT_EFORKED;
}

static pleat_status change_on(pl_gpu *gpu, const pl_buffer_change *change, pl_stream *on,
                              uint64_t n_errors)
{
    pleat_devptr unused;
    pl_want w = { .gpu = gpu, .stream = on, .change = change };
    pleat_status st = pl_want_ask(&w, &unused);
    if (st != PLEAT_ENOMEM_DEVICE && st != PLEAT_EPENDING) {
        return st;
    }
    w.bytes = bytes_of(gpu, change);
    w.in = room_of(gpu, change);
    return pl_short_alloc(&w, n_errors, st, &unused);
}

static pleat_status change(pl_gpu *gpu, const pl_buffer_change *wanted, void *stream)
{
    pl_stream *on;
    uint64_t n_errors = atomic_load_explicit(&pl_driver_n_errors, memory_order_relaxed);
    if (!gpu->ops->buffers) { /* the allocator has no buffers */
        return refuse(gpu, wanted, stream, PLEAT_EFOREIGN);
    }
    pleat_status st = pl_stream_get(gpu->dev, stream, &on);
    if (st == PLEAT_OK) {
        st = change_on(gpu, wanted, on, n_errors);
        if (st == PLEAT_EFORKED) { /* a child touches nothing of its parent */
            return st;
        }
        if (st == PLEAT_OK && wanted->what == PL_BUFFER_CLOSE) {
            pl_gpu_tell(gpu, PL_TOLD_PART, wanted->base, 0);
        }
        pl_stream_put(on);
        pl_gpu_debug_walk(gpu);
    }
    if (st != PLEAT_OK && !is_explained(st)) {
        pl_driver_clear_error_before(n_errors);
        return refuse(gpu, wanted, stream, st);
    }
    return st;
}

static pleat_status change_in(pleat handle, int device, const pl_buffer_change *wanted,
                              void *stream)
{
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    pl_gpu *gpu;
    pleat_status st = pl_use_find_used(use.instance, device, "it has no buffers", &gpu);
    if (st == PLEAT_OK) {
        int cancel = pl_cancel_off();
        st = change(gpu, wanted, stream);
        pl_cancel_restore(cancel);
    }
    pl_use_leave(use);
    return st;
}

pleat_status pleat_buffer_resize(pleat handle, int device, pleat_devptr buffer, uint64_t bytes,
                                 void *stream)
{
    pl_buffer_change wanted = { .what = PL_BUFFER_RESIZE, .base = buffer, .bytes = bytes };
    return change_in(handle, device, &wanted, stream);
}

pleat_status pleat_buffer_commit(pleat handle, int device, pleat_devptr buffer, uint64_t offset,
                                 uint64_t bytes, void *stream)
{
    pl_buffer_change wanted = { PL_BUFFER_COMMIT, buffer, offset, bytes };
    return change_in(handle, device, &wanted, stream);
}

pleat_status pleat_buffer_decommit(pleat handle, int device, pleat_devptr buffer, uint64_t offset,
                                   uint64_t bytes, void *stream)
{
    pl_buffer_change wanted = { PL_BUFFER_DECOMMIT, buffer, offset, bytes };
    return change_in(handle, device, &wanted, stream);
}

pleat_status pleat_buffer_record_stream(pleat handle, int device, pleat_devptr buffer, void *stream)
{
    pl_buffer_change wanted = { .what = PL_BUFFER_RECORD, .base = buffer };
    return change_in(handle, device, &wanted, stream);
}

pleat_status pleat_buffer_destroy(pleat handle, int device, pleat_devptr buffer, void *stream)
{
    pl_buffer_change wanted = { .what = PL_BUFFER_CLOSE, .base = buffer };
    return change_in(handle, device, &wanted, stream);
}

/* ---- query ----------------------------------------------------------------------------------- */

static void refuse_query(pl_instance *instance, int device, pleat_devptr ptr)
{
    char where[192];
    pl_text text;
    pl_text_init(&text, where, sizeof where);
    pl_whereabouts_say(instance, device, ptr, &text);
    pl_error_set(PLEAT_EFOREIGN, 0, "0x%llx on device %d lies in no buffer%s",
                 (unsigned long long)ptr, device, where);
}

pleat_status pleat_buffer_query_sized(pleat handle, int device, pleat_devptr ptr, size_t out_bytes,
                                      pleat_buffer_info *out)
{
    static const pl_sized kind = PL_SIZED("pleat_buffer_query", pleat_buffer_info, device);
    pleat_buffer_info info = { 0 };
    pleat_status st = pl_sized_check(&kind, out_bytes, out);
    if (st != PLEAT_OK) {
        return st;
    }
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    st = pl_use_check_device(use.instance, device);
    pl_gpu *gpu = pl_use_find_gpu(use.instance, device);
    if (st == PLEAT_OK) {
        bool is_able = gpu && gpu->ops->buffers;
        st = is_able ? gpu->ops->buffers->query(gpu->allocator, ptr, &info) : PLEAT_EFOREIGN;
        if (st == PLEAT_OK) {
            pl_sized_write(&kind, &info, out_bytes, out);
        } else {
            refuse_query(use.instance, device, ptr);
        }
    }
    pl_use_leave(use);
    return st;
}
