/* pleat_frameworks.h - the hooks of CuPy, Numba, ONNX Runtime and RMM.
 *
 * Plain C, in libpleat.so, on the default instance (PLEAT_CONF), under the rules of pleat_torch.h:
 *   - Any thread may call, with any device current.
 *   - Hooks are silent after the driver has shut down and in a forked child.
 *   - A failed request gives NULL. A failed free is complained of once on standard error.
 *   - A request of 0 bytes gives NULL, and a free of NULL does nothing, both without a word.
 *
 * pleat_cuda_mr.hpp has the C++ resource of CCCL, Thrust and RMM. The Python side is pleat.cupy,
 * pleat.numba, pleat.onnxruntime and pleat.rmm.
 *
 * CuPy and Numba name no stream in requests and frees. Their memory belongs to the current stream
 * of the requesting thread, and a free counts as a use on the current stream of the freeing thread.
 * The host must make sure that work on the memory is on that stream, or ordered with it, by the
 * time of the free. A blocking stream is ordered with the legacy default stream as soon as the
 * legacy stream does something. A non-blocking stream never is.
 *
 * Source of the signatures: CuPy, cupy/cuda/memory.pyx; Numba, EMM plugins; ONNX Runtime,
 * cuda_execution_provider_info.h; RMM, rmm/mr/callback_memory_resource.hpp. */
#ifndef PLEAT_FRAMEWORKS_H
#define PLEAT_FRAMEWORKS_H

#include "pleat.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Set the stream that the calling thread uses on a device, for hosts that name no stream.
 *
 *  Params   stream  a cudaStream_t of that device; NULL = the legacy default stream, as before the
 *                   first call. Set another stream before this one is destroyed.
 *  Returns  PLEAT_OK; PLEAT_EDEVICE (no instance has that many).
 *  Threads  any; each has its own.
 *  Blocks   never; looks at neither device nor stream. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_set_current_stream(int device, void *stream);

/** Tell the stream that the calling thread uses on a device; NULL for an impossible device. */
PLEAT_API void *pleat_current_stream(int device);

/* ---- CuPy: cupy.cuda.memory.CFunctionAllocator ---- */

/** Tells the calling thread's current stream on a device; a negative answer is none. CuPy's own is
 *  in cupy_backends.cuda.stream.__pyx_capi__["get_stream_ptr"]. */
typedef intptr_t (*pleat_cupy_stream_fn)(int device);

/** Allocate on the stream that the host's own function tells.
 *
 *  Params   stream_of  a pleat_cupy_stream_fn; NULL = pleat_current_stream.
 *  Returns  the address, or NULL: see pleat_last_error. CuPy does not look; pleat.cupy does.
 *  Blocks   as pleat_torch_malloc. */
PLEAT_API void *pleat_cupy_malloc(void *stream_of, size_t bytes, int device);
/** Free. */
PLEAT_API void pleat_cupy_free(void *stream_of, void *ptr, int device);

/* ---- Numba: External Memory Management plugin ---- */

/** Allocate on the calling thread's current device and stream.
 *
 *  Returns  the address, or NULL: see pleat_last_error.
 *  Blocks   as pleat_torch_malloc. */
PLEAT_API void *pleat_numba_malloc(size_t bytes);
/** Free memory of any device. */
PLEAT_API void pleat_numba_free(void *ptr);

/* ---- ONNX Runtime: gpu_external_alloc, _free, _empty_cache ---- */

/** Allocate on the calling thread's current device, on the legacy default stream: the CUDA
 *  execution provider computes there when it has an external allocator.
 *
 *  Returns  the address, or NULL: see pleat_last_error. ONNX Runtime throws.
 *  Blocks   as pleat_torch_malloc. */
PLEAT_API void *pleat_ort_alloc(size_t bytes);
/** Free memory of any device. */
PLEAT_API void pleat_ort_free(void *ptr);
/** Give back all free memory: pleat_torch_reset. */
PLEAT_API void pleat_ort_empty_cache(void);

/* ---- RMM: callback_memory_resource ---- */

/** Allocate on the calling thread's current device.
 *
 *  Params   stream  a cudaStream_t, or the cuda::stream_ref that RMM passes: the same register.
 *           arg     not used.
 *  Returns  the address, or NULL: see pleat_last_error. RMM takes NULL for memory;
 *           pleat_cuda_mr.hpp and pleat.rmm throw.
 *  Blocks   as pleat_torch_malloc. */
PLEAT_API void *pleat_rmm_alloc(size_t bytes, void *stream, void *arg);
/** Free memory of any device. `bytes` is ignored: the block knows its size. */
PLEAT_API void pleat_rmm_dealloc(void *ptr, size_t bytes, void *stream, void *arg);

#ifdef __cplusplus
}
#endif

#endif
