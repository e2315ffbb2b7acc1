/* alloc_at.c - a block of a private pool at a given address: the public call. Holds no lock. */
#include "api/pool/pool_state.h"

enum { QUANTUM = 512 };
#define MOST_BYTES ((size_t)1 << 60)

static const char *reason(pleat_status st)
{
    return st == PLEAT_EFOREIGN ? "the pool has no free memory there"
           : st == PLEAT_EBUSY  ? "a block lives there, or requests to the pool are under way"
                                : pleat_status_text(st);
}

static pleat_status alloc_at(pl_gpu *gpu, pleat_pool_id id, pleat_devptr address, size_t bytes,
                             void *stream)
{
    pl_stream *on;
    pl_pool *pool;
    if (!gpu->ops->pools) {
        return PLEAT_ENOTSUP;
    }
    pleat_status st = pl_stream_get(gpu->dev, stream, &on);
    if (st != PLEAT_OK) {
        return st;
    }
    st = pl_pools_close(&gpu->pools, id, gpu->instance->config.options.wait_ms, &pool);
    if (st == PLEAT_OK) {
        st = gpu->ops->pools->alloc_at(gpu->allocator, pool->in, address, bytes, on);
        pl_pool_reopen(&gpu->pools, pool);
    }
    pl_stream_put(on);
    return st;
}

pleat_status pleat_pool_alloc_at(pleat handle, int device, pleat_pool_id id, pleat_devptr address,
                                 size_t bytes, void *stream)
{
    pl_gpu *gpu = NULL;
    if (address == 0 || address % QUANTUM != 0 || bytes == 0) {
        return pl_error_set(PLEAT_EINVAL, bytes,
                            "a block at an address begins at a multiple of 512 and has a size");
    }
    if (bytes > MOST_BYTES) {
        return pl_error_set(PLEAT_ESIZE, bytes, "no device holds %zu bytes", bytes);
    }
    pl_use use = pl_use_enter(handle);
    pleat_status st = pl_pools_find_gpu(use, device, &gpu);
    if (st == PLEAT_OK) {
        st = gpu ? alloc_at(gpu, id, address, bytes, stream) : PLEAT_EPOOL;
        if (st != PLEAT_OK) {
            pl_pools_refuse(device, id, st, reason(st));
        } else {
            pl_gpu_debug_walk(gpu);
        }
    }
    if (use.instance) {
        pl_use_leave(use);
    }
    return st;
}
