/* pool_calls.c - the public calls of pleat_pool.h: they check arguments and word refusals. Holds no
 * lock. */
#include "api/pool/pool_state.h"

/* A limit of pleat's own is not a lack of host memory. */
static const char *why_not(pleat_status st)
{
    const char *detail = pl_driver_last_error()->detail;
    return st == PLEAT_ENOMEM_HOST && detail[0] != '\0' ? detail : pleat_status_text(st);
}

/* made_as: the route to begin; NULL = only a user is added. */
static pleat_status begin(pleat handle, int device, pleat_pool_id id, const pl_route *made_as)
{
    if (id.first == 0 && id.second == 0) {
        return pl_error_set(PLEAT_EINVAL, 0, "a private pool cannot be called (0, 0)");
    }
    pl_driver_clear_error();
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    pl_gpu *gpu = pl_use_gpu(use.instance, device);
    pleat_status st = gpu ? PLEAT_OK : pl_error_status();
    if (gpu && !gpu->ops->pools) {
        st = pl_error_set(PLEAT_ENOTSUP, 0,
                          "device %d: %s has no private pools, which graphs need; "
                          "allocator:pleat has",
                          device, gpu->ops->name);
    } else if (gpu) {
        st = made_as ? pl_pools_begin_route(&gpu->pools, id, made_as)
                     : pl_pools_add_user(&gpu->pools, id);
        if (st != PLEAT_OK) {
            pl_error_set(st, 0, "device %d: the private pool (%llu, %llu) could not be made: %s",
                         device, (unsigned long long)id.first, (unsigned long long)id.second,
                         why_not(st));
        }
    }
    pl_use_leave(use);
    return st;
}

pleat_status pleat_pool_begin(pleat handle, int device, pleat_pool_id id, pleat_route_fn route,
                              pleat_forget_fn forget, void *context)
{
    pl_route made_as = {
        .accepts = route, .forget = forget, .context = context, .thread = pthread_self()
    };
    pleat_status st = begin(handle, device, id, &made_as);
    if (st != PLEAT_OK) {
        pl_route_forget_context(&made_as);
    }
    return st;
}

pleat_status pleat_pool_hold(pleat handle, int device, pleat_pool_id id)
{
    return begin(handle, device, id, NULL);
}

pleat_status pl_pools_find_gpu(pl_use use, int device, pl_gpu **out)
{
    if (!use.instance) {
        return pl_error_status();
    }
    *out = pl_use_find_gpu(use.instance, device);
    return *out ? PLEAT_OK : pl_use_check_device(use.instance, device);
}

pleat_status pl_pools_refuse(int device, pleat_pool_id id, pleat_status st, const char *why)
{
    return pl_error_set(st, 0, "device %d, private pool (%llu, %llu): %s", device,
                        (unsigned long long)id.first, (unsigned long long)id.second, why);
}

pleat_status pleat_pool_end(pleat handle, int device, pleat_pool_id id)
{
    pl_gpu *gpu = NULL;
    pl_use use = pl_use_enter(handle);
    pleat_status st = pl_pools_find_gpu(use, device, &gpu);
    if (st == PLEAT_OK && (!gpu || !pl_pools_end_route(&gpu->pools, id))) {
        st = pl_pools_refuse(device, id, PLEAT_EPOOL,
                             "nothing is routed there, so nothing can end");
    }
    if (use.instance) {
        pl_use_leave(use);
    }
    return st;
}

pleat_status pleat_pool_release(pleat handle, int device, pleat_pool_id id)
{
    pl_gpu *gpu = NULL;
    pl_use use = pl_use_enter(handle);
    pleat_status st = pl_pools_find_gpu(use, device, &gpu);
    if (st == PLEAT_OK) {
        st = gpu ? pl_pools_release(&gpu->pools, id) : PLEAT_EPOOL;
        if (st != PLEAT_OK) {
            pl_pools_refuse(
                device, id, st,
                st == PLEAT_EBUSY
                    ? "its last user cannot go while requests are routed there: end first"
                    : "it was released as often as it was begun, or never begun");
        }
    }
    if (use.instance) {
        pl_use_leave(use);
    }
    return st;
}

pleat_status pleat_pool_stats(pleat handle, int device, unsigned index, pleat_pool_id *id,
                              pleat_stat reserved_bytes[PLEAT_N_SIZES])
{
    pl_gpu *gpu = NULL;
    if (!id || !reserved_bytes) {
        return pl_error_set(PLEAT_EINVAL, 0, "pleat_pool_stats: an out-parameter is NULL");
    }
    pl_use use = pl_use_enter(handle);
    pleat_status st = pl_pools_find_gpu(use, device, &gpu);
    if (st == PLEAT_OK && (!gpu || !pl_pools_read_one(&gpu->pools, index, id, reserved_bytes))) {
        st = pl_error_set(PLEAT_EPOOL, 0, "device %d has had no more than %u private pools", device,
                          index);
    }
    if (use.instance) {
        pl_use_leave(use);
    }
    return st;
}
