/* versions.hpp - differences between versions of PyTorch that overloads cannot tell. */
#pragma once

#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <dlfcn.h>
#include <torch/version.h>

#include <memory>
#include <vector>

#define PLEAT_TORCH_VERSION (TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR)

/* getExpandableSegmentSizes; read in the headers of 2.11, missing from 2.6 and 2.8. */
#define PLEAT_TORCH_HAS_SEGMENT_SIZES (PLEAT_TORCH_VERSION >= 210)
/* c10::DeviceAllocator, which is also registered by the type of device. */
#define PLEAT_TORCH_HAS_DEVICE_ALLOCATOR (PLEAT_TORCH_VERSION >= 209)
/* at::setHostAllocator with today's HostStats: missing from 2.7, with different figures in 2.9. */
#define PLEAT_TORCH_HAS_HOST_ALLOCATOR (PLEAT_TORCH_VERSION >= 210)
/* In 2.6 and 2.7, a pool's own allocator, and the pool of a snapshot, belong to the pool active in
 * the thread (c10::cuda::MemPoolContext). Later versions pass both. */
#define PLEAT_TORCH_HAS_ACTIVE_POOL (PLEAT_TORCH_VERSION < 208)
/* Annotations of live blocks, and a thread's metadata; in 2.15 and missing from 2.13. */
#define PLEAT_TORCH_HAS_BLOCK_NOTES (PLEAT_TORCH_VERSION >= 214)

/* The setting throw_on_cudamalloc_oom; in 2.13 and missing from 2.11. */
#define PLEAT_TORCH_HAS_EARLY_REFUSAL (PLEAT_TORCH_VERSION >= 213)

namespace pleat_torch
{

namespace CA = c10::cuda::CUDACachingAllocator;
using c10::DeviceIndex;
using MempoolId = c10::cuda::MempoolId_t;

inline pleat_pool_id pool_id(MempoolId id)
{
    return { id.first, id.second };
}

/* NULL: another pool is active, or it has no allocator of its own. */
inline CA::CUDAAllocator *allocator_of_active_pool([[maybe_unused]] MempoolId id)
{
#if PLEAT_TORCH_HAS_ACTIVE_POOL
    c10::cuda::MemPool *pool = c10::cuda::MemPoolContext::getActiveMemPool();
    return pool && pool->id() == id ? pool->allocator() : nullptr;
#else
    return nullptr;
#endif
}

/* {0, 0}: none. */
inline MempoolId active_pool()
{
#if PLEAT_TORCH_HAS_ACTIVE_POOL
    c10::cuda::MemPool *pool = c10::cuda::MemPoolContext::getActiveMemPool();
    return pool ? pool->id() : MempoolId{ 0, 0 };
#else
    return { 0, 0 };
#endif
}

/* torch's setting roundup_power2_divisions has an entry for each power of two from 1 MiB to 32 GiB.
 * The index of the entry for requests of `bytes`. */
constexpr size_t n_roundings = 16;
inline size_t rounding_index(size_t bytes)
{
    const auto first = uint64_t{ 1 } << 20;
    const auto index = static_cast<size_t>(43 - __builtin_clzll(bytes | first));
    return index < n_roundings ? index : n_roundings - 1;
}

/* The entry as it is now. Only 2.11 and later were seen to have the table where all can read it. */
inline size_t rounding_at(size_t index)
{
#if PLEAT_TORCH_VERSION >= 211
    static const std::vector<size_t> &table =
        c10::CachingAllocator::AcceleratorAllocatorConfig::roundup_power2_divisions();
    return table[index];
#else
    return CA::CUDAAllocatorConfig::roundup_power2_divisions(size_t{ 1 } << (20 + index));
#endif
}

/* True if torch's setting asks to refuse requests over its memory fraction before any remedy. */
inline bool refuses_early()
{
#if PLEAT_TORCH_HAS_EARLY_REFUSAL
    return CA::CUDAAllocatorConfig::throw_on_cudamalloc_oom();
#else
    return false;
#endif
}

/* Does not delete: the pool's owner does. Versions that pass a plain pointer keep it no longer than
 * the owner does. */
struct Lent {
    void operator()(CA::CUDAAllocator *) const
    {
    }
};

inline std::shared_ptr<CA::CUDAAllocator> borrow(CA::CUDAAllocator *from)
{
    return { from, Lent() };
}

inline bool is_lent(const std::shared_ptr<CA::CUDAAllocator> &from)
{
    return std::get_deleter<Lent>(from) != nullptr;
}

/* While Python ends, it drops objects in no order: the allocator may be gone before its pool. */
inline bool may_be_gone(const std::shared_ptr<CA::CUDAAllocator> &from)
{
    static void *const since_3_13 = dlsym(RTLD_DEFAULT, "Py_IsFinalizing");
    static const auto is_ending = reinterpret_cast<int (*)()>(
        since_3_13 ? since_3_13 : dlsym(RTLD_DEFAULT, "_Py_IsFinalizing"));
    return is_lent(from) && is_ending && is_ending();
}

} // namespace pleat_torch
