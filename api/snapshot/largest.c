/* largest.c - the longest free stretch of a device's memory. Holds no lock of its own. */
#include "api/instance/instance.h"
#include "api/snapshot/snapshot.h"

typedef struct longest {
    pleat_devptr end; /* of the present stretch */
    uint64_t bytes;   /* of it */
    uint64_t most;
} longest;

static void see(void *context, const pl_piece *piece)
{
    longest *l = context;
    bool is_free = (piece->kind == PL_PIECE_FREE || piece->kind == PL_PIECE_PENDING) &&
                   !piece->private_in;
    bool goes_on = is_free && !piece->is_first && piece->base == l->end;
    l->bytes = is_free ? (goes_on ? l->bytes : 0) + piece->bytes : 0;
    l->end = piece->base + piece->bytes;
    l->most = l->bytes > l->most ? l->bytes : l->most;
}

static uint64_t find_longest(pl_gpu *gpu)
{
    longest l = { 0 };
    pleat_devptr from = 0;
    if (!gpu->ops->visit_some) {
        gpu->ops->visit(gpu->allocator, see, &l);
        return l.most;
    }
    while (gpu->ops->visit_some(gpu->allocator, &from, see, &l)) {
    }
    return l.most;
}

pleat_status pleat_device_largest_free(pleat handle, int device, uint64_t *bytes)
{
    if (!bytes) {
        return pl_error_set(PLEAT_EINVAL, 0, "pleat_device_largest_free: an out-parameter is NULL");
    }
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    pl_gpu *gpu = pl_use_find_gpu(use.instance, device);
    pleat_status st = gpu ? PLEAT_OK : pl_use_check_device(use.instance, device);
    if (st == PLEAT_OK) {
        *bytes = gpu ? find_longest(gpu) : 0;
    }
    pl_use_leave(use);
    return st;
}
