/* kept.c - the public calls of pleat_tag.h about kept contents. Holds no lock. */
#include "api/instance/instance.h"
#include "api/tag/scope.h"
#include "vmm/driver.h"

/* ---- reading --------------------------------------------------------------------------------- */

static pleat_status refuse(const pl_gpu *gpu, pleat_devptr ptr, size_t bytes, pleat_status st)
{
    const char *detail = pl_driver_last_error()->detail;
    const char *why = st == PLEAT_ENOTSUP ? "it is in a file, or in several places of host memory"
                      : detail[0] != '\0' ? detail
                                          : pleat_status_text(st);
    return pl_error_set(st, bytes, "device %d: of %zu bytes at 0x%llx %s: %s", gpu->ordinal, bytes,
                        (unsigned long long)ptr,
                        st == PLEAT_ENOTSUP ? "there is no address to tell" : "nothing is kept",
                        why);
}

static pleat_status look(pl_gpu *gpu, pleat_devptr ptr, size_t bytes, void *to, void **at)
{
    pl_driver_clear_error();
    if (!gpu->ops->tags) {
        return pl_error_set(PLEAT_EFOREIGN, bytes,
                            "device %d: %s knows no tags; allocator:pleat does", gpu->ordinal,
                            gpu->ops->name);
    }
    pleat_status st = gpu->ops->tags->kept(gpu->allocator, ptr, bytes, to, at);
    return st == PLEAT_OK ? st : refuse(gpu, ptr, bytes, st);
}

static pleat_status look_in(pleat handle, int device, pleat_devptr ptr, size_t bytes, void *to,
                            void **at)
{
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    pl_gpu *gpu;
    pleat_status st = pl_use_find_used(use.instance, device, "nothing is kept", &gpu);
    if (st == PLEAT_OK) {
        st = look(gpu, ptr, bytes, to, at);
    }
    pl_use_leave(use);
    return st;
}

static pleat_status check(const char *call, pleat_devptr ptr, size_t bytes, const void *out)
{
    if (ptr != 0 && bytes > 0 && out) {
        return PLEAT_OK;
    }
    return pl_error_set(PLEAT_EINVAL, bytes, "%s: %s", call,
                        ptr == 0     ? "`ptr` is 0"
                        : bytes == 0 ? "0 bytes were asked for"
                                     : "there is no place for the answer");
}

pleat_status pleat_tag_read_kept(pleat handle, int device, pleat_devptr ptr, size_t bytes, void *to)
{
    pleat_status st = check("pleat_tag_read_kept", ptr, bytes, to);
    return st == PLEAT_OK ? look_in(handle, device, ptr, bytes, to, NULL) : st;
}

pleat_status pleat_tag_find_kept(pleat handle, int device, pleat_devptr ptr, size_t bytes,
                                 void **out)
{
    pleat_status st = check("pleat_tag_find_kept", ptr, bytes, out);
    return st == PLEAT_OK ? look_in(handle, device, ptr, bytes, NULL, out) : st;
}

/* ---- retaining ------------------------------------------------------------------------------- */

static pleat_status retain(pl_gpu *gpu, unsigned tag, bool is_retained)
{
    pl_keeper *heap = NULL;
    pleat_status st = pl_tags_heap(gpu, tag, &heap);
    if (st == PLEAT_OK && !heap) {
        return pl_error_set(PLEAT_ENOTSUP, 0, "device %d: %s knows no tags; allocator:pleat does",
                            gpu->ordinal, gpu->ops->name);
    }
    if (st != PLEAT_OK) {
        return pl_error_set(st, 0, "device %d: %s", gpu->ordinal, pleat_status_text(st));
    }
    gpu->ops->tags->retain(gpu->allocator, heap, is_retained);
    return PLEAT_OK;
}

pleat_status pleat_tag_retain(pleat handle, int device, const char *tag, int is_retained)
{
    unsigned number;
    pleat_status st = pl_tag_get(tag, &number);
    if (st != PLEAT_OK) {
        return st;
    }
    pl_driver_clear_error();
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    pl_gpu *gpu = pl_use_gpu(use.instance, device);
    st = gpu ? retain(gpu, number, is_retained != 0) : pl_error_status();
    pl_use_leave(use);
    return st;
}
