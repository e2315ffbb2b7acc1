/* own.c - frees a block whose stream and device the caller does not name.
 *
 * Asks the devices, starting with the device of the last free. The block's stream may have been
 * destroyed. So allocator:pleat gives its handle to the driver only if the program promised to keep
 * the stream. Models of other caches ask the driver about the stream, as their originals do. Holds
 * no lock. */
#include "api/calls/block.h"

#include "api/instance/instance.h"
#include "api/parts/stack.h"
#include "vmm/streams/stream.h"

/* For allocators without such a free: names the stream of the allocation, or the legacy stream if
 * that stream is forgotten. */
static pleat_status free_by_query(pl_gpu *gpu, pleat_devptr ptr)
{
    pleat_block_info info;
    pl_stream *on;
    pleat_status st = gpu->ops->query(gpu->allocator, ptr, &info);
    if (st != PLEAT_OK || info.base != ptr) {
        return PLEAT_EFOREIGN;
    }
    on = pl_stream_known(gpu->dev, info.stream);
    st = on != NULL ? PLEAT_OK : pl_stream_get(gpu->dev, NULL, &on);
    if (st != PLEAT_OK) {
        return st;
    }
    st = gpu->ops->free(gpu->allocator, ptr, on);
    pl_stream_put(on);
    return st;
}

static inline pleat_status free_on(pl_gpu *gpu, pleat_devptr ptr)
{
    bool has_stack = pl_history_wants_stack(&gpu->history, PLEAT_HISTORY_FREE_FRAMES);
    if (__builtin_expect(has_stack, 0)) {
        pl_stack_begin();
    }
    pleat_status st = gpu->ops->free_own != NULL ? gpu->ops->free_own(gpu->allocator, ptr)
                                                 : free_by_query(gpu, ptr);
    if (__builtin_expect(has_stack, 0)) {
        pl_stack_end();
    }
    return st;
}

static pleat_status free_somewhere(pl_use use, pleat_devptr ptr)
{
    int n = use.instance->n_devices;
    int first = use.self->last_device < n ? use.self->last_device : 0;
    for (int i = 0; i < n; i++) {
        int device = first + i < n ? first + i : first + i - n;
        pl_gpu *gpu = pl_use_find_gpu(use.instance, device);
        pleat_status st = gpu ? free_on(gpu, ptr) : PLEAT_EFOREIGN;
        if (st != PLEAT_EFOREIGN) {
            use.self->last_device = device;
        }
        if (st == PLEAT_OK) {
            pl_gpu_debug_walk(gpu);
        }
        if (st != PLEAT_EFOREIGN) {
            return st;
        }
    }
    return PLEAT_EFOREIGN;
}

/* When no device could free the block, the call that names a device refuses and says why. */
pleat_status pl_block_free_own(pleat handle, pleat_devptr ptr)
{
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    pleat_status st = free_somewhere(use, ptr);
    pl_use_leave(use);
    if (__builtin_expect(st == PLEAT_OK, 1)) {
        return st;
    }
    if (st == PLEAT_EFOREIGN || st == PLEAT_EDOUBLEFREE) {
        return pleat_block_free(handle, pl_caller_self->last_device, ptr, NULL);
    }
    return pl_error_set(st, 0, "the block at 0x%llx could not be freed: %s",
                        (unsigned long long)ptr, pleat_status_text(st));
}
