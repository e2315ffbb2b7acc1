/* pleat_torch.h - what torch.cuda.memory.CUDAPluggableAllocator and torch.cuda.MemPool call.
 *
 * Plain C, in libpleat.so, on the default instance (PLEAT_CONF). All functions may be called from
 * any thread, with any device current, and none changes which one is. None crashes after the driver
 * has shut down or in a forked child: memory is then left alone. What goes wrong in a function that
 * cannot say so is in pleat_last_error and, once for each kind, on standard error.
 *
 * libpleat_torch.so, a few lines of C++, adds what C cannot: pleat_torch_malloc_or_throw, and the
 * hook that takes a std::function by value. Python: pleat.torch.install().
 *
 * Source of the signatures: torch/csrc/cuda/CUDAPluggableAllocator.h. */
#ifndef PLEAT_TORCH_H
#define PLEAT_TORCH_H

#include "pleat.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Allocate. Everything that could find the memory has run before NULL is returned: takes, trims,
 *  the ordered wait, the host wait of `wait_ms`, callbacks.
 *
 *  Units    bytes; 0 gives NULL, and that is no error.
 *  Params   stream  a cudaStream_t; NULL = the legacy default stream.
 *  Returns  the address, or NULL: see pleat_last_error. PyTorch does not check for NULL: see
 *           pleat_torch_malloc_or_throw.
 *  Owner    the caller, until pleat_torch_free. */
PLEAT_API void *pleat_torch_malloc(size_t bytes, int device, void *stream);

/** Free; NULL is fine. `stream` is the one of the allocation, as PyTorch keeps it. */
PLEAT_API void pleat_torch_free(void *ptr, size_t bytes, int device, void *stream);

/** CUDA was initialised and has so many devices. Opens none of them. */
PLEAT_API void pleat_torch_init(int n_devices);

/** torch.cuda.empty_cache: give back all that is free on every device, waiting for its last uses.
 *  While anything is being captured nothing is waited for. */
PLEAT_API void pleat_torch_reset(void);

/** torch.cuda.set_per_process_memory_fraction: `fraction` of the device, above 0 and at most 1. */
PLEAT_API void pleat_torch_memory_fraction(double fraction, int device);

/** The block that `ptr` lies in, and its size; `ptr` itself and 0 if it lies in none. */
PLEAT_API void *pleat_torch_base_alloc(void *ptr, size_t *bytes);

/** Tensor.record_stream: `ptr`, anywhere in a block of any device, is used on `stream`, too. */
PLEAT_API void pleat_torch_record_stream(void *ptr, void *stream);

/** PyTorch's MempoolId_t, std::pair<uint64_t, uint64_t>: two registers in the ABIs of Linux on
 *  x86-64 and AArch64, whether passed as that or as this. */
PLEAT_API void pleat_torch_end_pool(int device, pleat_pool_id id);
PLEAT_API void pleat_torch_release_pool(int device, pleat_pool_id id);
/** In libpleat_torch.so, for PyTorch: pleat_torch_begin_pool(int, MempoolId_t, std::function). */

/** Tell every statistic of a device under the key of torch.cuda.memory_stats: 123 of them, and 12
 *  for each private pool ("reserved_bytes_by_private_pools.<a>_<b>.all.current"), in sorted order.
 *
 *  Returns  what pleat_default and pleat_device_stats return; `see` is called on PLEAT_OK only. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_torch_stats(
    int device, void (*see)(void *context, const char *key, int64_t value), void *context);

/** torch.cuda.reset_accumulated_memory_stats of a device. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_torch_reset_accumulated(int device);

#ifdef __cplusplus
}
#endif

#endif
