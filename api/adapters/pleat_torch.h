/* pleat_torch.h - the hooks of torch.cuda.memory.CUDAPluggableAllocator and torch.cuda.MemPool.
 *
 * Plain C, in libpleat.so, on the default instance (PLEAT_CONF). Any thread may call any function,
 * with any device current; no function changes the current device. After the driver has shut down,
 * or in a forked child, functions leave memory alone, without a word. Functions that cannot return
 * an error leave it in pleat_last_error and, once for each kind, on standard error.
 *
 * The library libpleat_torch.so adds hooks in C++: a throwing malloc, and a hook with a
 * std::function argument. Python: pleat.torch.install().
 *
 * Source of the signatures: torch/csrc/cuda/CUDAPluggableAllocator.h. */
#ifndef PLEAT_TORCH_H
#define PLEAT_TORCH_H

#include "pleat.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Allocate. Before NULL is returned, all remedies have run: takes, trims, the ordered wait, the
 *  host wait and callbacks. While free memory pends, the request is repeated. All remedies together
 *  take at most `wait_ms`.
 *
 *  Units    bytes; 0 gives NULL, and that is no error.
 *  Params   stream  a cudaStream_t; NULL = the legacy default stream.
 *  Returns  the address, or NULL: see pleat_last_error. torch.cuda.MemPool takes NULL for out of
 *           memory. torch.cuda.memory.change_current_allocator does not check for NULL, and the
 *           next kernel faults: pass it pleat_torch_malloc_or_throw instead.
 *  Owner    the caller, until pleat_torch_free.
 *  Blocks   as pleat_block_alloc. */
PLEAT_API void *pleat_torch_malloc(size_t bytes, int device, void *stream);

/** Free; NULL is fine. A pointer that is no live block is complained of and ignored.
 *
 *  Units    bytes: as allocated; ignored, since the block knows its size.
 *  Params   device, stream: those of the allocation, as PyTorch keeps them; ignored, since the
 *           stream may have been destroyed. A program that frees on another stream than it
 *           allocated on calls pleat_free.
 *  Blocks   as pleat_block_free. */
PLEAT_API void pleat_torch_free(void *ptr, size_t bytes, int device, void *stream);

/** Free a block of any device, in the order of its allocation's stream; NULL is fine. Otherwise as
 *  pleat_torch_free.
 *
 *  Threads  any; the block of another thread's allocation, too. */
PLEAT_API void pleat_torch_delete(void *ptr);

/** Note that the stream is not PyTorch's own. Its owner may destroy the stream, and a new stream
 *  may get its handle. With `stream_identity:handle`, calls that name this stream then ask the
 *  driver about it. No other call uses the handle.
 *
 *  Params   stream  as in the request that follows, which reports errors of the stream.
 *  Blocks   a few calls of the driver; makes the default instance and opens the device. */
PLEAT_API void pleat_torch_doubt_stream(int device, void *stream);

/** Note that CUDA was initialised, with `n_devices` devices. Makes the default instance, to show a
 *  bad PLEAT_CONF early; opens no device. */
PLEAT_API void pleat_torch_init(int n_devices);

/** Give back all free memory on every device, waiting for its last uses: torch.cuda.empty_cache.
 *  The waits for all devices together take at most `wait_ms`; memory that still pends stays. While
 *  a known stream of any device is being captured, the call waits for nothing.
 *
 *  Blocks   on the GPU, unmap and release. */
PLEAT_API void pleat_torch_reset(void);

/** Give back at most `bytes` of free memory of one device, when a pool has ended. The memory of
 *  ended pools is everybody's, so the call may give back other free memory, of the same amount.
 *
 *  Units    bytes.
 *  Threads  any.
 *  Blocks   as pleat_torch_reset. */
PLEAT_API void pleat_torch_give_back(int device, uint64_t bytes);

/** Limit a device to a part of its memory: torch.cuda.set_per_process_memory_fraction.
 *
 *  Units    fraction of the device's total, 0 to 1; 1 = no limit, 0 = nothing more.
 *  Failure  the limit is as before, also where live blocks exceed the new limit.
 *  Blocks   on opening the device; on unmap and release of free memory over the limit. */
PLEAT_API void pleat_torch_memory_fraction(double fraction, int device);

/** Round requests up as torch's setting roundup_power2_divisions says, on all devices of the
 *  default instance. Live blocks keep their size.
 *
 *  Shape    divisions [16]: for requests below 2 MiB, from 2, 4, ... MiB, and from 32 GiB on; 0 or
 *           a power of two up to 64.
 *  Returns  PLEAT_OK; PLEAT_EINVAL; PLEAT_ENOTSUP (the allocator is not pleat); all results of
 *           pleat_default.
 *  Failure  the setting is as before.
 *  Threads  any.
 *  Blocks   never; opens no device. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_torch_set_roundup(const size_t *divisions, size_t n);

/** Find the block that `ptr` lies in, on any device.
 *
 *  Params   bytes [out] the block's size; 0 if `ptr` lies in none. May be NULL.
 *  Returns  the block's start; `ptr` itself if it lies in none. */
PLEAT_API void *pleat_torch_base_alloc(void *ptr, size_t *bytes);

/** Say that a further stream of its device uses the block: Tensor.record_stream. Ignores memory of
 *  other allocators, as PyTorch does.
 *
 *  Params   ptr  anywhere in a block of any device. */
PLEAT_API void pleat_torch_record_stream(void *ptr, void *stream);

/** End or release a private pool: pleat_pool_end, pleat_pool_release. PyTorch passes MempoolId_t, a
 *  std::pair<uint64_t, uint64_t>. In the ABIs of Linux on x86-64 and AArch64 MempoolId_t and
 *  pleat_pool_id are passed alike, in two registers. To begin a pool, libpleat_torch.so has
 *  pleat_torch_begin_pool(int, MempoolId_t, std::function<bool(cudaStream_t)>). */
PLEAT_API void pleat_torch_end_pool(int device, pleat_pool_id id);
PLEAT_API void pleat_torch_release_pool(int device, pleat_pool_id id);

/** Tell every statistic of a device under the key of torch.cuda.memory_stats: 123 of them, and 12
 *  for each private pool ("reserved_bytes_by_private_pools.<a>_<b>.all.current"), sorted as Python
 *  sorts keys. PyTorch reports gone pools for ever, this call only the last 16 of them.
 *
 *  Params   see  called for each; the key lives for the call. max_split_size is -1 if unlimited.
 *                Must not destroy the instance.
 *  Returns  PLEAT_OK; PLEAT_EINVAL (`see` is NULL); PLEAT_EDEVICE; PLEAT_ENOMEM_HOST; all results
 *           of pleat_default. `see` is called on PLEAT_OK only.
 *  Blocks   never; opens no device. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_torch_stats(
    int device, void (*see)(void *context, const char *key, int64_t value), void *context);

/** Read the statistics of pleat_torch_stats as numbers: pleat_device_stats, with sums and counters
 *  since the last pleat_torch_reset_accumulated.
 *
 *  Returns  PLEAT_OK; PLEAT_EINVAL; PLEAT_EDEVICE; all results of pleat_default.
 *  Blocks   never; opens no device. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_torch_device_stats_sized(int device, size_t out_bytes,
                                                                     pleat_stats *out);
#ifndef PLEAT_FIRST_VERSIONS
PLEAT_MUST_USE static inline pleat_status pleat_torch_device_stats(int device, pleat_stats *out)
{
    return pleat_torch_device_stats_sized(device, sizeof *out, out);
}
#endif

/** Count from zero again: torch.cuda.reset_accumulated_memory_stats. Resets every "allocated" and
 *  "freed" and every counter of pleat_torch_stats, except those of private pools;
 *  pleat_device_stats goes on as before.
 *
 *  Returns  PLEAT_OK; PLEAT_EDEVICE; all results of pleat_default.
 *  Blocks   never; opens no device. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_torch_reset_accumulated(int device);

#ifdef __cplusplus
}
#endif

#endif
