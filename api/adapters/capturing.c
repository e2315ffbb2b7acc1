/* capturing.c - see capturing.h. Holds no lock. */
#include "api/adapters/capturing.h"

#include "vmm/stream.h"

bool pl_capturing_any(const pl_gpu *gpu)
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

void pl_capturing_let_go(pl_gpu *gpu)
{
    for (unsigned i = 0; i < pl_stream_count(gpu->dev); i++) {
        /* refused while it is being captured: its own end will come */
        (void)gpu->ops->release_capture(gpu->allocator, pl_stream_at(gpu->dev, i));
    }
}
