/* copy.c - see copy.h. Keeps no state. */
#include "vmm/copy.h"

#include "vmm/device_state.h"

static cu_result submit(pl_device *dev, const pl_copy *copies, size_t n, size_t *n_submitted)
{
    for (*n_submitted = 0; *n_submitted < n; ++*n_submitted) {
        const pl_copy *c = &copies[*n_submitted];
        cu_result result = pl_cu_memcpy_dtod_async(dev->drv, c->to, c->from, c->bytes,
                                                   CU_STREAM_LEGACY);
        if (result != CU_SUCCESS) {
            return result;
        }
    }
    return CU_SUCCESS;
}

/* The caller must know when its copies are over, whatever the driver says at first. */
static bool wait(pl_device *dev)
{
    return pl_cu_stream_synchronize(dev->drv, CU_STREAM_LEGACY) == CU_SUCCESS ||
           pl_cu_stream_synchronize(dev->drv, CU_STREAM_LEGACY) == CU_SUCCESS ||
           pl_cu_ctx_synchronize(dev->drv) == CU_SUCCESS;
}

pleat_status pl_copy_run(pl_device *dev, const pl_copy *copies, size_t n, bool *is_over)
{
    pl_scope scope;
    size_t n_submitted;

    *is_over = true;
    if (!pl_driver_has(dev->drv, PL_CU_memcpy_dtod_async)) {
        pl_driver_set_detail("the driver cannot copy from device to device");
        return PLEAT_ENOTSUP;
    }
    pleat_status st = pl_scope_begin(dev, &scope);
    if (st != PLEAT_OK) {
        return st;
    }
    st = pl_driver_failure(submit(dev, copies, n, &n_submitted));
    *is_over = n_submitted == 0 || wait(dev);
    pl_scope_end(dev, &scope);
    return st == PLEAT_OK && !*is_over ? PLEAT_EDRIVER : st;
}
