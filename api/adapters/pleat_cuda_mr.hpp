/* pleat_cuda_mr.hpp - pleat as a memory resource of CCCL (cuda::mr), for Thrust, CUB and RMM.
 *
 * C++20. Header only over pleat_torch.h: needs libpleat, and CCCL 3.0 or later; for 3.0, where the
 * concept is still an experiment with other names, define
 * LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE. A pleat_cuda_mr is a device's number: copies are
 * equal, own nothing, and may be made and thrown away at will. Memory is of the default instance.
 * Source: cuda/__memory_resource/resource.h of CCCL 3.0 and 3.5. */
#ifndef PLEAT_CUDA_MR_HPP
#define PLEAT_CUDA_MR_HPP

#include <cstddef>
#include <new>

#include <cuda/memory_resource>
#include <cuda/stream_ref>

#include "pleat_torch.h"

class pleat_cuda_mr
{
  public:
    /** The resource of a device; alignments beyond 256 are refused. */
    explicit pleat_cuda_mr(int device = 0) noexcept : device_(device)
    {
    }

    int device() const noexcept
    {
        return device_;
    }

    /** Allocate for use on `stream`. Throws std::bad_alloc: see pleat_last_error. */
    void *allocate(cuda::stream_ref stream, std::size_t bytes,
                   std::size_t alignment = most_alignment)
    {
        if (alignment > most_alignment) {
            throw std::bad_alloc();
        }
        void *ptr = pleat_torch_malloc(bytes, device_, stream.get());
        if (ptr == nullptr && bytes != 0) {
            throw std::bad_alloc();
        }
        return ptr;
    }

    /** Free; `stream` is where the memory was used last. */
    void deallocate(cuda::stream_ref stream, void *ptr, std::size_t bytes,
                    std::size_t = most_alignment) noexcept
    {
        pleat_torch_free(ptr, bytes, device_, stream.get());
    }

    /** Allocate for use on any stream: waits until earlier uses of the memory are over. The device
     *  must be current. */
    void *allocate_sync(std::size_t bytes, std::size_t alignment = most_alignment)
    {
        void *ptr = allocate(legacy_stream(), bytes, alignment);
        if (ptr != nullptr) {
            synchronize(legacy_stream());
        }
        return ptr;
    }

    /** Free what no stream uses any more. */
    void deallocate_sync(void *ptr, std::size_t bytes, std::size_t = most_alignment) noexcept
    {
        pleat_torch_free(ptr, bytes, device_, nullptr);
    }

    bool operator==(const pleat_cuda_mr &) const noexcept = default;

    friend constexpr void get_property(const pleat_cuda_mr &, cuda::mr::device_accessible) noexcept
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
    static constexpr std::size_t most_alignment = 256; /* of every allocator that may be at work */

    static cuda::stream_ref legacy_stream() noexcept
    {
        return cuda::stream_ref{ static_cast<cudaStream_t>(nullptr) };
    }

    /* Its name has changed. */
    template <class Stream> static void synchronize(Stream stream)
    {
        if constexpr (requires { stream.sync(); }) {
            stream.sync();
        } else {
            stream.wait();
        }
    }

    int device_;
};

#if CCCL_VERSION < 3001000
static_assert(cuda::mr::async_resource_with<pleat_cuda_mr, cuda::mr::device_accessible>);
#else
static_assert(cuda::mr::resource_with<pleat_cuda_mr, cuda::mr::device_accessible>);
#endif

#endif
