/* pleat_torch.h - what torch.cuda.memory.CUDAPluggableAllocator and torch.cuda.MemPool call.
 *
 * Plain C, in libpleat.so, on the default instance (PLEAT_CONF). All functions may be called from
 * any thread, with any device current, and none changes which one is. None crashes after the driver
 * has shut down or in a forked child: memory is then left alone, without a word. What goes wrong in
 * a function that cannot say so is in pleat_last_error and, once for each kind, on standard error.
 *
 * libpleat_torch.so, a few lines of C++, adds what C cannot: a malloc that throws, and the hook
 * that takes a std::function by value. Python: pleat.torch.install().
 *
 * Source of the signatures: torch/csrc/cuda/CUDAPluggableAllocator.h. */
#ifndef PLEAT_TORCH_H
#define PLEAT_TORCH_H

#include "pleat.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Allocate. Everything that could find the memory has run before NULL is returned: takes, trims,
 *  the ordered wait, the host wait, callbacks; and where memory is free but still pends, the
 *  request is made again. All of that together takes `wait_ms`.
 *
 *  Units    bytes; 0 gives NULL, and that is no error.
 *  Params   stream  a cudaStream_t; NULL = the legacy default stream.
 *  Returns  the address, or NULL: see pleat_last_error. torch.cuda.MemPool takes NULL for out of
 *           memory, but torch.cuda.memory.change_current_allocator does not look at it and the next
 *           kernel faults: give that one pleat_torch_malloc_or_throw.
 *  Owner    the caller, until pleat_torch_free.
 *  Blocks   as pleat_block_alloc. */
PLEAT_API void *pleat_torch_malloc(size_t bytes, int device, void *stream);

/** Free; NULL is fine. What is no block, or not any more, is complained of and ignored.
 *
 *  Units    bytes: as allocated; not looked at, the block knows its size.
 *  Params   device, stream: those of the allocation, as PyTorch keeps them; not looked at, since
 *           the stream may have been destroyed. A program that frees on another stream than it
 *           allocated on calls pleat_free.
 *  Blocks   as pleat_block_free. */
PLEAT_API void pleat_torch_free(void *ptr, size_t bytes, int device, void *stream);

/** Free a block of any device, in the order of the stream that it was allocated on; NULL is fine.
 *  Else as pleat_torch_free.
 *
 *  Threads  any; the block of another thread's allocation, too. */
PLEAT_API void pleat_torch_delete(void *ptr);

/** Hear that the stream is not PyTorch's own. Others may destroy it, and another stream may get its
 *  handle. With `stream_identity:handle` pleat then asks the driver about this stream in each call
 *  that names it, and uses the handle in no other call.
 *
 *  Params   stream  as in the request that follows, which tells what is wrong with it.
 *  Blocks   a few calls of the driver; makes the default instance and opens the device. */
PLEAT_API void pleat_torch_doubt_stream(int device, void *stream);

/** Hear that CUDA was initialised and has so many devices. Makes the default instance, so that a
 *  bad PLEAT_CONF shows here; opens no device. */
PLEAT_API void pleat_torch_init(int n_devices);

/** Give back all that is free on every device, waiting for its last uses: torch.cuda.empty_cache.
 *  All devices together are waited for at most `wait_ms`; what still pends stays.
 *  While a known stream of any device is being captured nothing is waited for.
 *
 *  Blocks   on the GPU, unmap and release. */
PLEAT_API void pleat_torch_reset(void);

/** The same of at most so many bytes of one device: a pool has ended, and its memory goes back. The
 *  memory of pools is everybody's by then, so it may be other free memory that goes, as long as
 *  there is so much less.
 *
 *  Units    bytes.
 *  Threads  any.
 *  Blocks   as pleat_torch_reset. */
PLEAT_API void pleat_torch_give_back(int device, uint64_t bytes);

/** Limit a device to a part of its memory: torch.cuda.set_per_process_memory_fraction.
 *
 *  Units    fraction of the device's total, 0 to 1; 1 = no limit, 0 = nothing more.
 *  Failure  the limit is as before, also where live blocks exceed the new one.
 *  Blocks   on opening the device; on unmap and release of what is free and over the limit. */
PLEAT_API void pleat_torch_memory_fraction(double fraction, int device);

/** Round requests up as torch's setting roundup_power2_divisions says, on all devices of the
 *  default instance. Blocks that are live keep their size.
 *
 *  Shape    divisions [16]: for requests below 2 MiB, from 2, 4, ... MiB, and from 32 GiB on; 0 or
 *           a power of two up to 64.
 *  Returns  PLEAT_OK; PLEAT_EINVAL; PLEAT_ENOTSUP (the allocator is not pleat); what pleat_default
 *           returns.
 *  Failure  the setting is as before.
 *  Threads  any.
 *  Blocks   never; opens no device. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_torch_set_roundup(const size_t *divisions, size_t n);

/** Find the block that `ptr` lies in, on any device.
 *
 *  Params   bytes [out] the block's size; 0 if `ptr` lies in none. May be NULL.
 *  Returns  the block's start; `ptr` itself if it lies in none. */
PLEAT_API void *pleat_torch_base_alloc(void *ptr, size_t *bytes);

/** Say that the block is used on a further stream of its device: Tensor.record_stream. Memory that
 *  is not pleat's is ignored, as PyTorch does.
 *
 *  Params   ptr  anywhere in a block of any device. */
PLEAT_API void pleat_torch_record_stream(void *ptr, void *stream);

/** End or release a private pool: pleat_pool_end, pleat_pool_release. PyTorch passes MempoolId_t, a
 *  std::pair<uint64_t, uint64_t>: two registers in the ABIs of Linux on x86-64 and AArch64, whether
 *  it is that or a pleat_pool_id. Where it begins one, libpleat_torch.so has
 *  pleat_torch_begin_pool(int, MempoolId_t, std::function<bool(cudaStream_t)>). */
PLEAT_API void pleat_torch_end_pool(int device, pleat_pool_id id);
PLEAT_API void pleat_torch_release_pool(int device, pleat_pool_id id);

/** Tell every statistic of a device under the key of torch.cuda.memory_stats: 123 of them, and 12
 *  for each private pool ("reserved_bytes_by_private_pools.<a>_<b>.all.current"), in the order in
 *  which Python sorts them. Of pools that are gone PyTorch tells for ever; here the last 16 are
 *  told.
 *
 *  Params   see  called for each; the key lives for the call. max_split_size is -1 if unlimited.
 *                Must not destroy the instance.
 *  Returns  PLEAT_OK; PLEAT_EINVAL (`see` is NULL); PLEAT_EDEVICE; PLEAT_ENOMEM_HOST; what
 *           pleat_default returns. `see` is called on PLEAT_OK only.
 *  Blocks   never; opens no device. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_torch_stats(
    int device, void (*see)(void *context, const char *key, int64_t value), void *context);

/** Read the same statistics as numbers: pleat_device_stats, with sums and counters since the last
 *  pleat_torch_reset_accumulated.
 *
 *  Returns  PLEAT_OK; PLEAT_EINVAL; PLEAT_EDEVICE; what pleat_default returns.
 *  Blocks   never; opens no device. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_torch_device_stats_sized(int device, size_t out_bytes,
                                                                     pleat_stats *out);
#ifndef PLEAT_FIRST_VERSIONS
PLEAT_MUST_USE static inline pleat_status pleat_torch_device_stats(int device, pleat_stats *out)
{
    return pleat_torch_device_stats_sized(device, sizeof *out, out);
}
#endif

/** Count from zero again: torch.cuda.reset_accumulated_memory_stats. Sets every "allocated" and
 *  "freed" and every counter that pleat_torch_stats tells, except for those of private pools;
 *  pleat_device_stats goes on as before.
 *
 *  Returns  PLEAT_OK; PLEAT_EDEVICE; what pleat_default returns.
 *  Blocks   never; opens no device. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_torch_reset_accumulated(int device);

#ifdef __cplusplus
}
#endif

#endif
