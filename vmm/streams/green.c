/* green.c - green contexts, which share all of a primary context but some multiprocessors.
 *
 * Green streams count as streams of the primary context. pleat records an event of the primary
 * context on them; where the driver refuses, a fence of the whole device replaces the event. No
 * event is made in a green context, since the event may go with the context, and nobody reports a
 * context's end.
 *
 * Memory that a green context's stream used may end up behind an event or a synchronisation of the
 * whole primary context. Since CUDA 13.0 the primary context's events and synchronisations cover
 * its green contexts. Before 13.0, green streams are refused.
 *
 * While a green context is current, handle 0 means its own default stream. Only a call made
 * meanwhile can reach the default stream. So the stream's fences cover the whole device. Asking
 * whether a green context is current costs a driver call each time. So pleat asks first in three
 * places: where PyTorch's calls name handle 0 (api/adapters/torch.c), where a fence of the legacy
 * stream is recorded, and at the legacy stream's first sight. After a green context was noticed,
 * each call that names handle 0 asks. Earlier work on the legacy stream may have been a green
 * context's. So the old object stands for both streams, with fences of the whole device, and the
 * legacy stream gets a new object. Each call that names handle 2, a thread's default stream, asks.
 */
#include "vmm/device_state.h"

enum { SINCE = 13000 };

static pleat_status refuse(const pl_device *dev, const void *handle)
{
    pl_driver_clear_error();
    pl_driver_set_detail("stream %p is of a green context of device %d, whose work a driver before "
                         "CUDA 13 leaves out where it waits for all work of the device",
                         handle, dev->ordinal);
    return PLEAT_ESTREAM;
}

pleat_status pl_green_primary(pl_device *dev, cu_stream handle, cu_context *out)
{
    cu_context primary = NULL;
    cu_green_ctx green = NULL;
    if (!pl_driver_has(dev->drv, PL_CU_stream_green)) {
        return PLEAT_ENOTSUP;
    }
    cu_result result = pl_cu_stream_green(dev->drv, handle, &primary, &green);
    if (result != CU_SUCCESS) {
        return result == CU_NOT_FOUND ? PLEAT_ENOTSUP : pl_driver_failure(result);
    }
    if (green != NULL && dev->driver_version < SINCE) {
        return refuse(dev, handle);
    }
    *out = primary;
    return green != NULL ? PLEAT_OK : PLEAT_ENOTSUP;
}

/* ---- the default streams --------------------------------------------------------------------- */

bool pl_green_is_asked_about(const pl_device *dev)
{
    return atomic_load(&dev->streams.asks_zero);
}

/* Is a context of the device current that may be green? Other devices' contexts are not. */
static bool may_be_green(const pl_device *dev)
{
    cu_context current = NULL;
    cu_device gpu = 0;
    return pl_cu_ctx_get_current(dev->drv, &current) == CU_SUCCESS && current != NULL &&
           current != dev->context && pl_cu_ctx_get_device(dev->drv, &gpu) == CU_SUCCESS &&
           gpu == dev->gpu;
}

/* Asks about a capture first, since the later questions would break it. */
static pleat_status ask(pl_device *dev, cu_stream handle, pl_capture_info *capture, uint64_t *id)
{
    cu_context primary = NULL;
    unsigned long long told = 0;
    if (pl_stream_ask_capture(dev, handle, capture) != CU_SUCCESS) {
        return PLEAT_ENOTSUP; /* a legacy stream, beside captures of blocking streams */
    }
    if (capture->is_capturing) {
        pl_driver_set_detail("default stream %p is of the current green context, and is captured",
                             (void *)handle);
        return PLEAT_ESTREAM;
    }
    int mode = pl_scope_relax(dev);
    pleat_status st = pl_green_primary(dev, handle, &primary);
    st = st == PLEAT_OK && primary != dev->context ? PLEAT_ENOTSUP : st;
    if (st == PLEAT_OK) {
        st = pl_driver_failure(pl_cu_stream_id(dev->drv, handle, &told));
    }
    pl_scope_restore_mode(dev, mode);
    *id = told;
    return st;
}

static void begin_asking(pl_device *dev)
{
    pl_lock_acquire(&dev->lock);
    bool is_first = !atomic_exchange(&dev->streams.asks_zero, true);
    if (is_first && dev->streams.kept_legacy != NULL) {
        atomic_store(&dev->streams.legacy, NULL);
        dev->streams.kept_legacy->kind = PL_STREAM_GREEN_DEFAULT;
        dev->streams.kept_legacy = NULL;
    }
    pl_lock_release(&dev->lock);
}

pleat_status pl_green_default(pl_device *dev, cu_stream handle, pl_capture_info *capture,
                              uint64_t *id)
{
    if (!may_be_green(dev)) {
        return PLEAT_ENOTSUP;
    }
    uint64_t n_errors = atomic_load(&pl_driver_n_errors);
    pleat_status st = ask(dev, handle, capture, id);
    if (st == PLEAT_ENOTSUP) {
        if (pl_driver_last_error()->number > n_errors) { /* a refused question is no failure */
            pl_driver_clear_error();
        }
        return st;
    }
    begin_asking(dev);
    return st;
}

bool pl_green_notices(pl_device *dev)
{
    pl_capture_info capture;
    uint64_t id;
    return pl_green_default(dev, CU_STREAM_LEGACY, &capture, &id) != PLEAT_ENOTSUP;
}
