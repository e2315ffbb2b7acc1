/* find.c - asks every open device of an instance for the address; opens none. Holds no lock. */
#include "api/adapters/find.h"

#include "api/instance/instance.h"

pleat_status pl_find_block(pleat handle, const void *ptr, pleat_block_info *out)
{
    pleat_status st = PLEAT_EFOREIGN;
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    for (int i = 0; i < use.instance->n_devices && ptr && st != PLEAT_OK; i++) {
        pl_gpu *gpu = pl_use_find_gpu(use.instance, i);
        if (gpu) {
            st = gpu->ops->query(gpu->allocator, (pleat_devptr)(uintptr_t)ptr, out);
        }
    }
    pl_use_leave(use);
    return st;
}
