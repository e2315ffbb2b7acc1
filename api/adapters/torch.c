/* torch.c - PyTorch's hooks on the default instance: memory.
 *
 * Hooks cannot return errors. A failed malloc returns NULL; any other failure is complained of
 * once, and the process goes on. After the driver has shut down, and in a forked child, hooks are
 * silent: destructors of tensors run at every exit. Each hook works on its `device`, not on the
 * current device, and vmm restores the caller's context. Holds no lock. */
#include "api/adapters/pleat_torch.h"

#include "api/adapters/find.h"
#include "api/base/complain.h"
#include "api/calls/block.h"
#include "api/calls/default.h"
#include "api/instance/instance.h"
#include "vmm/base/cancel.h"
#include "vmm/base/deadline.h"
#include "vmm/streams/stream.h"

/* ---- handle 0 ---- */

/* PyTorch makes green contexts current, and then 0 is their default stream. */
static void look_at_zero(int device)
{
    pl_use use = pl_use_enter(pl_default_peek());
    pl_gpu *gpu = use.instance ? pl_use_find_gpu(use.instance, device) : NULL;
    if (gpu && pl_stream_legacy(gpu->dev)) { /* else each call that names handle 0 looks itself */
        (void)pl_green_notices(gpu->dev);
    }
    if (use.instance) {
        pl_use_leave(use);
    }
}

/* ---- malloc ---- */

/* NULL ends the program's work, so pending memory is waited for longer than elsewhere. Nothing else
 * can help: free memory of private pools belongs to graphs, and other devices' memory is useless.
 * */
void *pleat_torch_malloc(size_t bytes, int device, void *stream)
{
    if (bytes == 0) {
        return NULL;
    }
    if (!stream) {
        look_at_zero(device);
    }
    return pl_default_malloc_patiently(bytes, device, stream);
}

/* ---- free ---- */

/* PyTorch passes the stream that it kept with the block. That stream may have been destroyed; the
 * block knows its own stream. */
void pleat_torch_free(void *ptr, size_t bytes, int device, void *stream)
{
    (void)bytes;
    (void)device;
    (void)stream;
    pleat_torch_delete(ptr);
}

void pleat_torch_delete(void *ptr)
{
    if (!ptr) {
        return;
    }
    if (__builtin_expect(
            pl_block_free_own(pl_default_peek(), (pleat_devptr)(uintptr_t)ptr) != PLEAT_OK, 0)) {
        pl_complain_of_free();
    }
}

/* ---- blocks ---- */

void *pleat_torch_base_alloc(void *ptr, size_t *bytes)
{
    pleat_block_info info;
    bool is_found = pl_find_block(pl_default_peek(), ptr, &info) == PLEAT_OK;
    if (bytes) {
        *bytes = is_found ? info.bytes : 0;
    }
    return is_found ? (void *)(uintptr_t)info.base : ptr;
}

void pleat_torch_record_stream(void *ptr, void *stream)
{
    pleat_block_info info;
    pleat handle = pl_default_peek();
    if (pl_find_block(handle, ptr, &info) != PLEAT_OK) {
        return;
    }
    if (!stream) {
        look_at_zero(info.device);
    }
    if (pleat_block_record_stream(handle, info.device, info.base, stream) != PLEAT_OK) {
        pl_complain_once(PL_COMPLAINT_RECORD, "a use on a stream could not be recorded");
    }
}

/* ---- streams ---- */

void pleat_torch_doubt_stream(int device, void *stream)
{
    pleat handle;
    pl_use use = { .instance = NULL };
    int cancel = pl_cancel_off();
    if (pleat_default(&handle) == PLEAT_OK) {
        use = pl_use_enter(handle);
    }
    if (use.instance) {
        const pl_gpu *gpu = pl_use_gpu(use.instance, device);
        pl_stream *known;
        if (gpu && pl_stream_get(gpu->dev, stream, &known) == PLEAT_OK) {
            pl_stream_doubt(known);
            pl_stream_put(known);
        }
        pl_use_leave(use);
    }
    pl_cancel_restore(cancel);
}

/* ---- devices ---- */

void pleat_torch_init(int n_devices)
{
    pleat handle;
    if (pleat_default(&handle) != PLEAT_OK) {
        pl_complain_once(PL_COMPLAINT_INIT, "no memory can be allocated");
        return;
    }
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return;
    }
    if (n_devices > use.instance->n_devices) {
        pl_error_set(PLEAT_EDEVICE, 0, "the program has %d, the driver that pleat uses %d",
                     n_devices, use.instance->n_devices);
        pl_complain_once(PL_COMPLAINT_INIT, "there are devices without memory");
    }
    pl_use_leave(use);
}

/* PyTorch's routes last from before a capture until after it. Waiting for one device may break a
 * capture on another. */
static bool is_routed_anywhere(pl_instance *instance)
{
    bool is_any = false;
    for (int i = 0; i < instance->n_devices && !is_any; i++) {
        const pl_gpu *gpu = pl_use_find_gpu(instance, i);
        is_any = gpu && pl_pools_are_routed(&gpu->pools);
    }
    return is_any;
}

/* Pending memory stays for the next time. */
static void trim_to(pleat handle, int device, uint64_t keep_bytes, bool may_wait)
{
    pleat_status st = pleat_device_trim(handle, device, keep_bytes, may_wait, NULL);
    if (st != PLEAT_OK && st != PLEAT_EPENDING) {
        pl_complain_once(PL_COMPLAINT_RESET, "free memory could not be given back");
    }
}

void pleat_torch_reset(void)
{
    pleat handle = pl_default_peek();
    int cancel = pl_cancel_off(); /* a trim that waits is a cancellation point, this call is none */
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        pl_cancel_restore(cancel);
        return;
    }
    bool may_wait = !is_routed_anywhere(use.instance);
    pl_deadline_begin();
    pl_deadline_hold(use.instance->config.options.wait_ms); /* of all devices */
    for (int i = 0; i < use.instance->n_devices; i++) {
        trim_to(handle, i, 0, may_wait);
    }
    pl_deadline_let_go();
    pl_use_leave(use);
    pl_cancel_restore(cancel);
}

void pleat_torch_give_back(int device, uint64_t bytes)
{
    pleat_stats stats = { 0 };
    pleat handle = pl_default_peek();
    int cancel = pl_cancel_off();
    pl_use use = pl_use_enter(handle);
    if (use.instance && pleat_device_stats(handle, device, &stats) == PLEAT_OK) {
        uint64_t keep_bytes = stats.resident_bytes > bytes ? stats.resident_bytes - bytes : 0;
        trim_to(handle, device, keep_bytes, !is_routed_anywhere(use.instance));
    }
    if (use.instance) {
        pl_use_leave(use);
    }
    pl_cancel_restore(cancel);
}

/* PyTorch's 1 removes the limit; its 0 allows nothing, but pleat's 0 means no limit. */
static uint64_t limit_of(double fraction, uint64_t total_bytes)
{
    uint64_t bytes = (uint64_t)(fraction * (double)total_bytes + 0.5);
    if (fraction >= 1) {
        return 0;
    }
    return bytes > 0 ? bytes : 1;
}

void pleat_torch_memory_fraction(double fraction, int device)
{
    pleat handle;
    pleat_device_info info;
    pleat_status st = PLEAT_EINVAL;
    if (!(fraction >= 0 && fraction <= 1)) {
        pl_error_set(st, 0, "device %d: a fraction is within 0 and 1", device);
    } else {
        st = pleat_default(&handle);
        st = st == PLEAT_OK ? pleat_device_query(handle, device, &info) : st;
        st = st == PLEAT_OK
                 ? pleat_device_set_limit(handle, device, limit_of(fraction, info.total_bytes))
                 : st;
    }
    if (st != PLEAT_OK) {
        pl_complain_once(PL_COMPLAINT_FRACTION, "the memory fraction stays as it was");
    }
}
