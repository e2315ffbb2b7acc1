/* torch.cpp - PyTorch's own allocator of device memory behind plain C, for `pleat bench pairs`.
 *
 * Its calls are virtual C++. So the command opens this file after torch.sh has compiled it against
 * the headers of the installed wheel. The command has replaced CUDA's runtime by
 * libpleat_runtime.so. With PLUGGABLE the row is torch's CUDAPluggableAllocator over hooks that the
 * command names. The row needs libtorch_cuda.so. With CLASS the row is pleat's class for PyTorch
 * (python/pleat/torch/source), over the libpleat.so beside the command. With PINNED the row is
 * PyTorch's cache of pinned memory in libtorch_cuda.so. A block is represented by its context,
 * since PyTorch frees by context. Nothing throws into C. */
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>
#include <torch/version.h>

#include <cstdio>
#include <exception>

#ifdef PLUGGABLE
#include <torch/csrc/cuda/CUDAPluggableAllocator.h>
#endif

#ifdef CLASS
#include "all.cpp"
#endif

#ifdef PINNED
#include <ATen/core/CachingHostAllocator.h>
#include <c10/cuda/CUDAStream.h>
#endif

#define SHIM_API extern "C" __attribute__((visibility("default")))

using Allocator = c10::cuda::CUDACachingAllocator::CUDAAllocator;
using Malloc = void *(*)(size_t bytes, int device, void *stream);
using Free = void (*)(void *ptr, size_t bytes, int device, void *stream);

static Allocator *allocator;
#ifdef PINNED
static at::HostAllocator *pinned;
static c10::DeleterFnPtr deleter;
#endif
static char problem[512];

static Allocator *open_allocator(Malloc hook_malloc, Free hook_free)
{
#ifdef PLUGGABLE
    static auto pluggable = torch::cuda::CUDAPluggableAllocator::createCustomAllocator(
        [hook_malloc](size_t n, int device, cudaStream_t stream) {
            return hook_malloc(n, device, stream);
        },
        [hook_free](void *ptr, size_t n, int device, cudaStream_t stream) {
            hook_free(ptr, n, device, stream);
        });
    return pluggable.get();
#else
    (void)hook_malloc;
    (void)hook_free;
#ifdef CLASS /* beside torch's own allocator, which is a separate row */
    pleat_torch::installed = new pleat_torch::Allocator;
    return pleat_torch::installed;
#endif
    return c10::cuda::CUDACachingAllocator::get();
#endif
}

/* NULL, or why PyTorch's allocator cannot be had. The hooks are for PLUGGABLE only. */
SHIM_API const char *pleat_pairs_torch_open(Malloc hook_malloc, Free hook_free)
{
    try {
        cudaError_t error = cudaSetDevice(0);
        if (error != cudaSuccess) {
            return cudaGetErrorString(error);
        }
#ifdef PINNED
        pinned = at::getHostAllocator(c10::DeviceType::CUDA);
        deleter = pinned->allocate(1).get_deleter();
#endif
        allocator = open_allocator(hook_malloc, hook_free);
        allocator->init(1);
        return nullptr;
    } catch (const std::exception &e) {
        std::snprintf(problem, sizeof problem, "%s", e.what());
        return problem;
    }
}

SHIM_API const char *pleat_pairs_torch_version(void)
{
    return TORCH_VERSION;
}

/* Once in each further thread. */
SHIM_API void pleat_pairs_torch_enter(void)
{
    (void)cudaSetDevice(0);
}

SHIM_API void *pleat_pairs_torch_alloc(size_t bytes, void *stream)
{
    try {
#ifdef PINNED
        return pinned->allocate(bytes).release_context();
#endif
        return allocator->raw_alloc_with_stream(bytes, static_cast<cudaStream_t>(stream));
    } catch (...) {
        return nullptr;
    }
}

/* The stream uses pinned memory before it is freed. */
SHIM_API void pleat_pairs_torch_use(void *ptr, void *stream)
{
#ifdef PINNED
    auto used = c10::cuda::getStreamFromExternal(static_cast<cudaStream_t>(stream), 0);
    (void)pinned->record_event(nullptr, ptr, used.unwrap());
#else
    (void)ptr;
    (void)stream;
#endif
}

SHIM_API void pleat_pairs_torch_free(void *ptr)
{
#ifdef PINNED
    deleter(ptr);
    return;
#endif
    allocator->raw_delete(ptr);
}
