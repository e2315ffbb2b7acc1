/* whereabouts.c - see whereabouts.h.
 *
 * Looks on every device in use for a block, a buffer, or opened memory of another process. The
 * memory may be gone by the time the text is read. Holds no lock. */
#include "api/instance/whereabouts.h"

static bool say_block(const pl_gpu *gpu, pleat_devptr ptr, pl_text *text)
{
    pleat_block_info info;
    if (gpu->ops->query(gpu->allocator, ptr, &info) != PLEAT_OK) {
        return false;
    }
    if (info.base != ptr) {
        pl_text_add(text, "; it lies inside the block that begins at 0x%llx",
                    (unsigned long long)info.base);
    } else {
        pl_text_add(text, "; it is a block: pleat_%s_free frees it",
                    pl_device_is_host(gpu->dev) ? "host" : "block");
    }
    return true;
}

static bool say_buffer(const pl_gpu *gpu, pleat_devptr ptr, pl_text *text)
{
    pleat_buffer_info info;
    if (!gpu->ops->buffers || gpu->ops->buffers->query(gpu->allocator, ptr, &info) != PLEAT_OK) {
        return false;
    }
    pl_text_add(text,
                "; it lies in the buffer that begins at 0x%llx: pleat_buffer_destroy frees it",
                (unsigned long long)info.base);
    return true;
}

static bool say_import(pl_gpu *gpu, pleat_devptr ptr, pl_text *text)
{
    pl_shared_block block;
    pl_share_list list = { .blocks = &block };
    if (atomic_load(&gpu->imports.n_opens) == 0) {
        return false;
    }
    pl_imports_claim(&gpu->imports, gpu->dev);
    bool is_there = pl_imports_list(&gpu->imports, ptr, 0, &list) == PLEAT_OK;
    pl_imports_unclaim(&gpu->imports);
    if (is_there) {
        pl_text_add(text, "; it is open from another process: pleat_share_close closes it");
    }
    return is_there;
}

void pl_whereabouts_say(pl_instance *instance, int device, pleat_devptr ptr, pl_text *text)
{
    for (int i = 0; i < instance->n_devices; i++) {
        pl_gpu *gpu = pl_use_find_gpu(instance, i);
        bool is_here = gpu && (say_block(gpu, ptr, text) || say_buffer(gpu, ptr, text) ||
                               say_import(gpu, ptr, text));
        if (is_here && i != device) {
            pl_text_add(text, "; it belongs to device %d", i);
        }
        if (is_here) {
            return;
        }
    }
}
