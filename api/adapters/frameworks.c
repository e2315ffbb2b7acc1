/* frameworks.c - hosts that name no stream, or no device: CuPy, Numba, ONNX Runtime, RMM.
 *
 * Each function finds the missing device and stream, then continues like PyTorch's hooks. The
 * device follows from the current context or the address, the stream from the thread's setting.
 * Holds no lock. */
#include "api/adapters/pleat_frameworks.h"

#include <string.h>

#include "api/adapters/find.h"
#include "api/adapters/pleat_torch.h"
#include "api/base/complain.h"
#include "api/calls/block.h"
#include "api/calls/default.h"
#include "api/instance/instance.h"

/* ---- device and stream ---- */

static _Thread_local void *own_streams[PL_N_DEVICES]; /* owner */

pleat_status pleat_set_current_stream(int device, void *stream)
{
    if ((unsigned)device >= PL_N_DEVICES) {
        return pl_error_set(PLEAT_EDEVICE, 0, "there is no device %d: no instance has more than %d",
                            device, PL_N_DEVICES);
    }
    own_streams[device] = stream;
    return PLEAT_OK;
}

void *pleat_current_stream(int device)
{
    return (unsigned)device < PL_N_DEVICES ? own_streams[device] : NULL;
}

/* Enters the default instance, made if need be. On failure the result of pleat_default is the last
 * error. */
static pl_use enter_default(void)
{
    pl_use use = pl_use_enter(pl_default_peek());
    if (!use.instance && pl_error_status() == PLEAT_EGONE) {
        pleat handle;
        if (pleat_default(&handle) == PLEAT_OK) {
            use = pl_use_enter(handle);
        }
    }
    return use;
}

/* False without an instance, or after the driver's end; the last error tells which. */
static bool find_current_device(int *out)
{
    pl_use use = enter_default();
    if (!use.instance) {
        return false;
    }
    pleat_status st = pl_driver_current_device(use.instance->drv, out);
    if (st != PLEAT_OK) {
        pl_error_set(st, 0, "the driver does not tell which device is current");
    }
    pl_use_leave(use);
    return st == PLEAT_OK;
}

/* For an address outside all blocks: device 0, which refuses the free and describes the address. */
static bool find_device_of(const void *ptr, int *out)
{
    pleat_block_info info = { .device = 0 };
    pleat_status st = pl_find_block(pl_default_peek(), ptr, &info);
    *out = info.device;
    return st == PLEAT_OK || st == PLEAT_EFOREIGN;
}

static void free_on(void *ptr, int device, void *stream)
{
    pleat_devptr at = (pleat_devptr)(uintptr_t)ptr;
    pleat handle = pl_default_peek();
    pleat_status st = ptr ? pleat_block_free(handle, device, at, stream) : PLEAT_OK;
    if (st == PLEAT_EDRIVER ||
        st == PLEAT_ESTREAM) { /* the named stream is gone: use the block's own */
        st = pl_block_free_own(handle, at);
    }
    if (st != PLEAT_OK) {
        pl_complain_of_free();
    }
}

static void free_anywhere(void *ptr, void *stream)
{
    int device;
    if (ptr && find_device_of(ptr, &device)) {
        free_on(ptr, device, stream);
    }
}

/* ---- CuPy ---- */

static void *cupy_stream(const void *stream_of, int device)
{
    pleat_cupy_stream_fn ask;
    if (!stream_of) {
        return pleat_current_stream(device);
    }
    memcpy(&ask, &stream_of, sizeof ask);
    intptr_t stream = ask(device);
    return stream > 0 ? (void *)stream : NULL;
}

void *pleat_cupy_malloc(void *stream_of, size_t bytes, int device)
{
    return bytes ? pleat_torch_malloc(bytes, device, cupy_stream(stream_of, device)) : NULL;
}

void pleat_cupy_free(void *stream_of, void *ptr, int device)
{
    if (ptr) {
        free_on(ptr, device, cupy_stream(stream_of, device));
    }
}

/* ---- Numba ---- */

void *pleat_numba_malloc(size_t bytes)
{
    int device;
    if (bytes == 0 || !find_current_device(&device)) {
        return NULL;
    }
    return pleat_torch_malloc(bytes, device, pleat_current_stream(device));
}

void pleat_numba_free(void *ptr)
{
    int device;
    if (ptr && find_device_of(ptr, &device)) {
        free_on(ptr, device, pleat_current_stream(device));
    }
}

/* ---- ONNX Runtime ---- */

void *pleat_ort_alloc(size_t bytes)
{
    return pleat_rmm_alloc(bytes, NULL, NULL);
}

void pleat_ort_free(void *ptr)
{
    free_anywhere(ptr, NULL);
}

void pleat_ort_empty_cache(void)
{
    pleat_torch_reset();
}

/* ---- RMM ---- */

void *pleat_rmm_alloc(size_t bytes, void *stream, void *arg)
{
    int device;
    (void)arg;
    if (bytes == 0 || !find_current_device(&device)) {
        return NULL;
    }
    return pleat_torch_malloc(bytes, device, stream);
}

void pleat_rmm_dealloc(void *ptr, size_t bytes, void *stream, void *arg)
{
    (void)bytes;
    (void)arg;
    free_anywhere(ptr, stream);
}
