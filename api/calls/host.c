/* host.c - the public calls of pleat_host.h.
 *
 * Every block belongs to the device's idle stream (vmm/idle.h), which runs no work. So a block
 * freed without a use is free at once, and uses of other streams are waited for. The idle stream is
 * never captured, so the driver is not asked about it. A block that a stream has used takes the way
 * to its fence. Holds no lock. */
#include "api/pleat_host.h"

#include "api/instance/short.h"
#include "api/instance/whereabouts.h"
#include "vmm/base/cancel.h"
#include "vmm/driver.h"
#include "vmm/idle.h"

#define MOST_BYTES ((size_t)1 << 60)

static const pl_capture_info at_rest = { .is_asked = true };

static pleat_status refuse_instance(void)
{
    return pl_error_set(PLEAT_ENOTSUP, 0,
                        "the instance's memory is the devices': make one with memory:host for "
                        "pinned memory of the host");
}

/* The idle stream of the device; opens the device. NULL: *st says why. */
static __attribute__((noinline)) pl_stream *find_idle(pl_instance *instance, pl_gpu *gpu,
                                                      pleat_status *st)
{
    pl_stream *idle = NULL;
    if (!gpu) {
        *st = pl_error_status();
        return NULL;
    }
    if (instance->config.memory != PL_MEMORY_HOST) {
        *st = refuse_instance();
        return NULL;
    }
    int cancel = pl_cancel_off();
    *st = pl_device_idle_stream(gpu->dev, &idle);
    pl_cancel_restore(cancel);
    if (*st != PLEAT_OK) {
        pl_error_set(*st, 0, "device %d: no stream could be made: %s", gpu->ordinal,
                     pleat_status_text(*st));
        return NULL;
    }
    atomic_store_explicit(&gpu->idle, idle, memory_order_release);
    return idle;
}

static inline pl_stream *idle_of(pl_instance *instance, pl_gpu *gpu, pleat_status *st)
{
    pl_stream *idle = gpu ? atomic_load_explicit(&gpu->idle, memory_order_acquire) : NULL;
    return __builtin_expect(idle != NULL, 1) ? idle : find_idle(instance, gpu, st);
}

/* ---- allocate -------------------------------------------------------------------------------- */

static __attribute__((cold, noinline)) pleat_status refuse_size(size_t bytes, const void *out)
{
    if (!out || bytes == 0) {
        return pl_error_set(PLEAT_EINVAL, bytes, "pleat_host_alloc: %s",
                            out ? "zero bytes were requested" : "`out` is NULL");
    }
    return pl_error_set(PLEAT_ESIZE, bytes, "no host has %zu bytes", bytes);
}

static inline pleat_status alloc(pleat handle, int device, size_t bytes, pleat_devptr *out)
{
    pl_want w = { .bytes = bytes, .asked = &at_rest };
    pleat_status st = PLEAT_OK;
    uint64_t n_errors = atomic_load_explicit(&pl_driver_n_errors, memory_order_relaxed);
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    w.gpu = pl_use_gpu(use.instance, device);
    w.stream = idle_of(use.instance, w.gpu, &st);
    if (w.stream) {
        st = pl_want_ask(&w, out);
        if (__builtin_expect(st != PLEAT_OK, 0)) {
            st = pl_short_alloc(&w, n_errors, st, out);
        }
        if (st != PLEAT_EFORKED) {
            pl_gpu_debug_walk(w.gpu);
        }
    }
    pl_use_leave(use);
    return st;
}

pleat_status pleat_host_alloc(pleat handle, int device, size_t bytes, void **out)
{
    pleat_devptr ptr = 0;
    if (bytes - 1 >= MOST_BYTES || !out) { /* zero wraps around */
        return refuse_size(bytes, out);
    }
    pleat_status st = alloc(handle, device, bytes, &ptr);
    if (st == PLEAT_OK) {
        *out = (void *)(uintptr_t)ptr;
    }
    return st;
}

/* ---- free and record ------------------------------------------------------------------------- */

static pleat_status refuse(const pl_gpu *gpu, const void *ptr, uint64_t n_errors, pleat_status st)
{
    char where[192];
    pl_text text;
    pl_text_init(&text, where, sizeof where);
    if (st == PLEAT_EFOREIGN) {
        pl_whereabouts_say(gpu->instance, gpu->ordinal, (uintptr_t)ptr, &text);
    }
    pl_driver_clear_error_before(n_errors);
    return pl_error_set(st, 0, "%p of host memory for device %d: %s%s", ptr, gpu->ordinal,
                        pleat_status_text(st), where);
}

static pleat_status free_unused(pl_gpu *gpu, pleat_devptr ptr, pl_stream *idle)
{
    if (gpu->ops->free_asked) {
        return gpu->ops->free_asked(gpu->allocator, ptr, idle, &at_rest);
    }
    return gpu->ops->free(gpu->allocator, ptr, idle);
}

/* Frees or records a block that `stream` has used. */
static pleat_status with_stream(pl_gpu *gpu, pleat_devptr ptr, void *stream, bool is_free)
{
    pl_stream *on;
    int cancel = pl_cancel_off();
    pleat_status st = pl_stream_get(gpu->dev, stream, &on);
    if (st == PLEAT_OK) {
        st = is_free ? gpu->ops->free(gpu->allocator, ptr, on)
                     : gpu->ops->record_stream(gpu->allocator, ptr, on);
        pl_stream_put(on);
    }
    pl_cancel_restore(cancel);
    return st;
}

static pleat_status with_block(pleat handle, int device, void *ptr, void *stream, bool is_free)
{
    pleat_status st = PLEAT_OK;
    uint64_t n_errors = atomic_load_explicit(&pl_driver_n_errors, memory_order_relaxed);
    pleat_devptr at = (uintptr_t)ptr;
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    pl_gpu *gpu = pl_use_gpu(use.instance, device);
    pl_stream *idle = idle_of(use.instance, gpu, &st);
    if (idle) {
        bool is_unused = stream == PLEAT_HOST_UNUSED;
        st = is_free && is_unused ? free_unused(gpu, at, idle)
             : is_unused          ? PLEAT_OK
                                  : with_stream(gpu, at, stream, is_free);
        if (st != PLEAT_OK) {
            refuse(gpu, ptr, n_errors, st);
        }
        pl_gpu_debug_walk(gpu);
    }
    pl_use_leave(use);
    return st;
}

pleat_status pleat_host_free(pleat handle, int device, void *ptr, void *stream)
{
    return with_block(handle, device, ptr, stream, true);
}

pleat_status pleat_host_record_stream(pleat handle, int device, void *ptr, void *stream)
{
    return with_block(handle, device, ptr, stream, false);
}
