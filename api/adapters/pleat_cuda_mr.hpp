/* pleat_cuda_mr.hpp - pleat as memory resources of CCCL (cuda::mr), for Thrust, CUB and RMM.
 *
 * C++20. Header only over pleat_torch.h and pleat_cxx.hpp: needs libpleat, and CCCL 3.0 or later.
 * In CCCL 3.0 the concept is still an experiment with other names: for 3.0 define
 * LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE.
 *
 *   pleat_cuda_mr{device}                  device memory of the default instance
 *   pleat_cuda_instance_mr{gpu, device}    device memory of any instance
 *   pleat_cuda_host_mr{host, device}       pinned memory of an instance with memory:host
 *
 * Each resource is two numbers: copies are equal, own nothing, and may be made and thrown away at
 * will. An instance outlives its resources. Any alignment that is a power of two is served.
 * Source: cuda/__memory_resource in CCCL 3.0 to 3.5. */
#ifndef PLEAT_CUDA_MR_HPP
#define PLEAT_CUDA_MR_HPP

#include <concepts>
#include <cstddef>
#include <new>
#include <type_traits>

#include <cuda/memory_resource>
#include <cuda/std/__exception/cuda_error.h> /* cuda::cuda_error has no header of its own */
#include <cuda/stream_ref>
#include <cuda_runtime_api.h>

#include "pleat_cxx.hpp"
#include "pleat_torch.h"

namespace pleat_cuda
{

/* A source of memory: take, give and base_of. The stream of `give` is the last user of the memory;
 * `unused` means no user. */
struct default_source {
    static constexpr bool is_host = false;
    static constexpr void *unused = nullptr;

    void *take(int device, std::size_t bytes, void *stream) const noexcept
    {
        return pleat_torch_malloc(bytes, device, stream);
    }

    void give(int device, void *ptr, std::size_t bytes, void *stream) const noexcept
    {
        pleat_torch_free(ptr, bytes, device, stream);
    }

    void *base_of(int, void *ptr) const noexcept
    {
        return pleat_torch_base_alloc(ptr, nullptr);
    }

    bool operator==(const default_source &) const noexcept = default;
};

struct instance_source {
    static constexpr bool is_host = false;
    static constexpr void *unused = nullptr;

    pleat handle;

    void *take(int device, std::size_t bytes, void *stream) const noexcept
    {
        pleat_devptr at = 0;
        bool is_there = pleat_block_alloc(handle, device, bytes, stream, &at) == PLEAT_OK;
        return is_there ? reinterpret_cast<void *>(at) : nullptr;
    }

    void give(int device, void *ptr, std::size_t, void *stream) const noexcept
    {
        pleat_cxx::ignore(pleat_block_free(handle, device, at(ptr), stream));
    }

    void *base_of(int device, void *ptr) const noexcept
    {
        return reinterpret_cast<void *>(pleat_cxx::base_of(handle, device, at(ptr), SIZE_MAX));
    }

    bool operator==(const instance_source &other) const noexcept
    {
        return handle.slot == other.handle.slot && handle.generation == other.handle.generation;
    }

    static pleat_devptr at(void *ptr) noexcept
    {
        return reinterpret_cast<pleat_devptr>(ptr);
    }
};

struct host_source : instance_source {
    static constexpr bool is_host = true;
    static inline void *const unused = PLEAT_HOST_UNUSED;

    void *take(int device, std::size_t bytes, void *) const noexcept
    {
        void *ptr = nullptr;
        return pleat_host_alloc(handle, device, bytes, &ptr) == PLEAT_OK ? ptr : nullptr;
    }

    void give(int device, void *ptr, std::size_t, void *stream) const noexcept
    {
        pleat_cxx::ignore(pleat_host_free(handle, device, ptr, stream));
    }

    bool operator==(const host_source &) const noexcept = default;
};

template <class Source> class resource
{
  public:
#if CCCL_VERSION >= 3002000
    /* For cuda::make_buffer, and whoever else asks the type for its properties. */
    using default_queries = std::conditional_t<
        Source::is_host,
        cuda::mr::properties_list<cuda::mr::device_accessible, cuda::mr::host_accessible>,
        cuda::mr::properties_list<cuda::mr::device_accessible>>;
#endif

    /** The resource of a device. */
    explicit resource(int device = 0) noexcept requires std::same_as<Source, default_source>
        : source_{}, device_(device)
    {
    }

    /** The resource of a device of an instance. */
    explicit resource(pleat handle, int device = 0) noexcept
        requires(!std::same_as<Source, default_source>)
        : source_{ handle_of(handle) }, device_(device)
    {
    }

    int device() const noexcept
    {
        return device_;
    }

    /** Allocate for use on `stream`. Throws std::bad_alloc: see pleat_last_error. */
    void *allocate(cuda::stream_ref stream, std::size_t bytes,
                   std::size_t alignment = pleat_cxx::own_alignment)
    {
        if (bytes == 0) {
            return nullptr;
        }
        std::size_t all = pleat_cxx::bytes_to_align(bytes, alignment);
        void *ptr = source_.take(device_, all, stream.get());
        if (ptr == nullptr) {
            throw std::bad_alloc();
        }
        return reinterpret_cast<void *>(
            pleat_cxx::align_up(reinterpret_cast<std::uintptr_t>(ptr), alignment));
    }

    /** Free; `stream` is where the memory was used last. */
    void deallocate(cuda::stream_ref stream, void *ptr, std::size_t bytes,
                    std::size_t alignment = pleat_cxx::own_alignment) noexcept
    {
        give(ptr, bytes, alignment, stream.get());
    }

    /** Allocate for use on any stream: waits until earlier uses of the memory are over. Any device
     *  may be current, or none. Throws std::bad_alloc; cuda::cuda_error if the wait fails, and then
     *  nothing is allocated. */
    void *allocate_sync(std::size_t bytes, std::size_t alignment = pleat_cxx::own_alignment)
    {
        void *ptr = allocate(legacy_stream(), bytes, alignment);
        cudaError_t result = ptr == nullptr || Source::is_host ? cudaSuccess : finish_legacy();
        if (result != cudaSuccess) {
            deallocate(legacy_stream(), ptr, bytes, alignment);
            throw cuda::cuda_error(result, "the memory's earlier uses cannot be waited for");
        }
        return ptr;
    }

    /** Free what no stream uses any more. */
    void deallocate_sync(void *ptr, std::size_t bytes,
                         std::size_t alignment = pleat_cxx::own_alignment) noexcept
    {
        give(ptr, bytes, alignment, Source::unused);
    }

    bool operator==(const resource &) const noexcept = default;

    friend constexpr void get_property(const resource &, cuda::mr::device_accessible) noexcept
    {
    }

    friend constexpr void get_property(const resource &,
                                       cuda::mr::host_accessible) noexcept requires Source::is_host
    {
    }

#if CCCL_VERSION < 3001000
    void *allocate(std::size_t bytes, std::size_t alignment)
    {
        return allocate_sync(bytes, alignment);
    }
    void deallocate(void *ptr, std::size_t bytes, std::size_t alignment) noexcept
    {
        deallocate_sync(ptr, bytes, alignment);
    }
    void *allocate_async(std::size_t bytes, std::size_t alignment, cuda::stream_ref stream)
    {
        return allocate(stream, bytes, alignment);
    }
    void deallocate_async(void *ptr, std::size_t bytes, std::size_t alignment,
                          cuda::stream_ref stream) noexcept
    {
        deallocate(stream, ptr, bytes, alignment);
    }
#endif

  private:
    static Source handle_of(pleat handle) noexcept
    {
        Source source{};
        source.handle = handle;
        return source;
    }

    static cuda::stream_ref legacy_stream() noexcept
    {
        return cuda::stream_ref{ static_cast<cudaStream_t>(nullptr) };
    }

    /* Wait for the legacy stream of device_. The runtime makes a context where the thread has none;
     * CCCL's streams only ask the driver. */
    cudaError_t finish_legacy() const noexcept
    {
        int current = device_;
        cudaError_t result = cudaGetDevice(&current);
        if (result == cudaSuccess && current != device_) {
            result = cudaSetDevice(device_);
        }
        if (result == cudaSuccess) {
            result = cudaStreamSynchronize(nullptr);
        }
        if (current != device_) {
            cudaError_t restored = cudaSetDevice(current);
            result = result == cudaSuccess ? restored : result;
        }
        return result;
    }

    void give(void *ptr, std::size_t bytes, std::size_t alignment, void *stream) noexcept
    {
        if (ptr != nullptr) {
            bool is_base = alignment <= pleat_cxx::own_alignment;
            source_.give(device_, is_base ? ptr : source_.base_of(device_, ptr), bytes, stream);
        }
    }

    Source source_;
    int device_;
};

} /* namespace pleat_cuda */

using pleat_cuda_mr = pleat_cuda::resource<pleat_cuda::default_source>;
using pleat_cuda_instance_mr = pleat_cuda::resource<pleat_cuda::instance_source>;
using pleat_cuda_host_mr = pleat_cuda::resource<pleat_cuda::host_source>;

#if CCCL_VERSION < 3001000
static_assert(cuda::mr::async_resource_with<pleat_cuda_mr, cuda::mr::device_accessible>);
static_assert(cuda::mr::async_resource_with<pleat_cuda_instance_mr, cuda::mr::device_accessible>);
static_assert(cuda::mr::async_resource_with<pleat_cuda_host_mr, cuda::mr::device_accessible,
                                            cuda::mr::host_accessible>);
#else
static_assert(cuda::mr::resource_with<pleat_cuda_mr, cuda::mr::device_accessible>);
static_assert(cuda::mr::resource_with<pleat_cuda_instance_mr, cuda::mr::device_accessible>);
static_assert(cuda::mr::resource_with<pleat_cuda_host_mr, cuda::mr::device_accessible,
                                      cuda::mr::host_accessible>);
#endif

#endif
