/* rounding.c - see rounding.h.
 *
 * The instance keeps the last setting under its lock, for devices opened later. The lock is held
 * while open devices are told, so that all devices have the same setting; telling a device makes no
 * driver call. */
#include "api/instance/rounding.h"

#include <string.h>

#include "api/base/error.h"

static void tell(const pl_gpu *gpu, const unsigned divisions[PL_N_DIVISIONS])
{
    if (gpu->ops->set_rounding) { /* else the fallback */
        gpu->ops->set_rounding(gpu->allocator, divisions);
    }
}

pleat_status pl_instance_set_rounding(pl_instance *instance,
                                      const unsigned divisions[PL_N_DIVISIONS])
{
    const pl_allocator_ops *ops = instance->config.allocator;
    if (!ops->set_rounding) {
        return pl_error_set(PLEAT_ENOTSUP, 0,
                            "the allocator %s takes roundup_power2_divisions from its "
                            "configuration only",
                            ops->name);
    }
    pl_lock_acquire(&instance->lock);
    memcpy(instance->roundup_divisions, divisions, sizeof instance->roundup_divisions);
    for (int i = 0; i < instance->n_devices; i++) {
        const pl_gpu *gpu = pl_use_find_gpu(instance, i);
        if (gpu) {
            tell(gpu, divisions);
        }
    }
    pl_lock_release(&instance->lock);
    return PLEAT_OK;
}

void pl_rounding_follow(pl_gpu *gpu)
{
    const pl_instance *instance = gpu->instance;
    pl_lock_assert(&instance->lock);
    if (memcmp(instance->roundup_divisions, instance->config.options.roundup_divisions,
               sizeof instance->roundup_divisions) != 0) {
        tell(gpu, instance->roundup_divisions);
    }
}

pl_config pl_instance_config_now(pl_instance *instance)
{
    pl_config config = instance->config;
    pl_lock_acquire(&instance->lock);
    memcpy(config.options.roundup_divisions, instance->roundup_divisions,
           sizeof config.options.roundup_divisions);
    pl_lock_release(&instance->lock);
    return config;
}
