/* capturing.c - see capturing.h. Holds no lock. */
#include "api/adapters/capturing.h"

#include "vmm/stream.h"

static bool is_capturing(const pl_gpu *gpu)
{
    bool is_captured = false;
    for (unsigned i = 0; i < pl_stream_count(gpu->dev) && !is_captured; i++) {
        pl_stream *stream = pl_stream_at(gpu->dev, i);
        if (pl_stream_is_still_capturing(stream, &is_captured) != PLEAT_OK) {
            is_captured = false;
        }
    }
    return is_captured;
}

bool pl_capturing_anywhere(pl_instance *instance)
{
    bool is_any = false;
    for (int i = 0; i < instance->n_devices && !is_any; i++) {
        const pl_gpu *gpu = pl_use_find_gpu(instance, i);
        is_any = gpu && (pl_pools_are_routed(&gpu->pools) || is_capturing(gpu));
    }
    return is_any;
}

void pl_capturing_let_go(pl_gpu *gpu)
{
    for (unsigned i = 0; i < pl_stream_count(gpu->dev); i++) {
        /* refused while it is being captured: its own end will come */
        (void)gpu->ops->release_capture(gpu->allocator, pl_stream_at(gpu->dev, i));
    }
}
