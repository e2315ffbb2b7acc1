/* memory.cpp - allocate, free, record uses: the path of every tensor.
 *
 * A request costs the current device, the current stream and one call of pleat; a free costs one
 * call. One test skips histories, the profiler, and pools with allocators of their own, while
 * nobody uses them. */
#include "allocator.hpp"

#include <c10/core/impl/GPUTrace.h>
#include <c10/core/impl/PyInterpreter.h>
#include <c10/cuda/CUDAException.h>

#include <cstdlib>

namespace pleat_torch
{

Allocator *installed;

namespace
{

DeviceIndex current_device()
{
    DeviceIndex device = 0;
    const cudaError_t error = c10::cuda::GetDevice(&device);
    if (C10_UNLIKELY(error != cudaSuccess)) { /* the check alone is a call */
        C10_CUDA_CHECK(error);
    }
    return device;
}

void free_uncached(void *ptr)
{
    C10_CUDA_CHECK_WARN(cudaFree(ptr));
}

} // namespace

Allocator::Allocator() : is_enabled_(std::getenv("PYTORCH_NO_CUDA_MEMORY_CACHING") == nullptr)
{
}

/* ---- torch's settings ---- */

__attribute__((cold, noinline)) void Allocator::round_anew()
{
    std::array<size_t, n_roundings> now;
    const std::lock_guard<std::mutex> guard(mutex_);
    for (size_t i = 0; i < now.size(); i++) {
        now.at(i) = rounding_at(i);
    }
    const pleat_status status = pleat_torch_set_roundup(now.data(), now.size());
    if (status != PLEAT_OK && status != PLEAT_ENOTSUP) {
        TORCH_WARN("pleat does not heed torch's setting: ", pleat_last_error()->text);
    }
    for (size_t i = 0; i < now.size(); i++) {
        roundings_.at(i) = now.at(i);
    }
}

/* torch reports no change of its settings, so each request reads its rounding again. */
C10_ALWAYS_INLINE void Allocator::heed_rounding(size_t bytes)
{
    const size_t i = rounding_index(bytes);
    if (C10_UNLIKELY(rounding_at(i) != roundings_[i].load(std::memory_order_relaxed))) {
        round_anew();
    }
}

/* ---- allocate ---- */

/* Every look at the profiler takes as long as a small block. A free looks only after some request
 * has been profiled: so a profile lacks frees of older blocks before its first request. */
static std::atomic<bool> was_profiled;

/* Add to the profiler's timeline. `bytes` is negative for a free. */
void Allocator::tell_profiler(void *ptr, int64_t bytes, DeviceIndex device)
{
    const pleat_stats stats = all_stats(device);
    c10::reportMemoryUsageToProfiler(ptr, bytes, stats.allocated_bytes[PLEAT_SIZES_ALL].current,
                                     stats.reserved_bytes[PLEAT_SIZES_ALL].current,
                                     c10::Device(c10::kCUDA, device));
}

void *Allocator::take_told(size_t bytes, DeviceIndex device, cudaStream_t stream)
{
    bool is_short = false;
    void *ptr;
    {
        const Recorder::Scope scope(recorder_, CA::RecordContext::STATE);
        ptr = pools_.take_foreign(bytes, device, stream, is_short);
        if (ptr == nullptr && !is_short) {
            ptr = pleat_torch_malloc(bytes, device, stream);
        }
    }
    if (ptr == nullptr) {
        ptr = is_short ? take_foreign_short(bytes, device, stream)
                       : take_short(bytes, device, stream);
    }
    if (c10::memoryProfilingEnabled()) {
        was_profiled = true;
        pleat_block_info info;
        pleat_piece piece;
        const uint64_t told = pools_.look_foreign(ptr, piece) ? piece.bytes
                              : find_block(ptr, info)         ? info.bytes
                                                              : bytes;
        tell_profiler(ptr, static_cast<int64_t>(told), device);
    }
    return ptr;
}

/* torch keeps its own streams alive. Their numbers are odd, or 0 for the default stream. The number
 * of an ExternalStream is its handle, an address (c10/cuda/CUDAStream.cpp). */
static bool is_external(c10::cuda::CUDAStream stream)
{
    return stream.id() != 0 && stream.id() % 2 == 0;
}

C10_ALWAYS_INLINE static cudaStream_t handle_of(c10::cuda::CUDAStream stream)
{
    if (C10_UNLIKELY(is_external(stream))) {
        pleat_torch_doubt_stream(stream.device_index(), stream.stream());
    }
    return stream.stream();
}

C10_ALWAYS_INLINE void *Allocator::take(size_t bytes, DeviceIndex device, cudaStream_t stream)
{
    if (C10_UNLIKELY(bytes == 0)) {
        return nullptr;
    }
    heed_rounding(bytes);
    if (C10_UNLIKELY(refuses_early())) {
        refuse_early(bytes, device);
    }
    void *ptr;
    if (C10_LIKELY(!recorder_.is_on() && !pools_.has_foreign() && !c10::memoryProfilingEnabled())) {
        ptr = pleat_torch_malloc(bytes, device, stream);
        if (C10_UNLIKELY(ptr == nullptr)) {
            ptr = take_short(bytes, device, stream);
        }
    } else {
        ptr = take_told(bytes, device, stream);
    }
    const c10::impl::PyInterpreter *python = c10::impl::GPUTrace::get_trace();
    if (C10_UNLIKELY(python != nullptr)) {
        (*python)->trace_gpu_memory_allocation(c10::kCUDA, reinterpret_cast<uintptr_t>(ptr));
    }
    return ptr;
}

c10::DataPtr Allocator::allocate(size_t bytes)
{
    const DeviceIndex device = current_device();
    const c10::Device where(c10::kCUDA, device);
    if (C10_UNLIKELY(!isEnabled())) {
        void *ptr = take_uncached(bytes);
        return { ptr, ptr, &free_uncached, where };
    }
    void *ptr = take(bytes, device, handle_of(c10::cuda::getCurrentCUDAStream(device)));
    return { ptr, ptr, &Allocator::give, where };
}

/* With caching disabled, which is for debugging. */
void *Allocator::take_uncached(size_t bytes)
{
    void *ptr = nullptr;
    if (bytes > 0) {
        C10_CUDA_CHECK(cudaMalloc(&ptr, bytes));
    }
    return ptr;
}

void *Allocator::raw_alloc(size_t bytes)
{
    if (C10_UNLIKELY(!isEnabled())) {
        return take_uncached(bytes);
    }
    const DeviceIndex device = current_device();
    return take(bytes, device, handle_of(c10::cuda::getCurrentCUDAStream(device)));
}

void *Allocator::raw_alloc_with_stream(size_t bytes, cudaStream_t stream)
{
    if (C10_UNLIKELY(!isEnabled())) {
        return take_uncached(bytes);
    }
    const DeviceIndex device = current_device();
    const c10::cuda::CUDAStream current = c10::cuda::getCurrentCUDAStream(device);
    if (stream != nullptr && (stream != current.stream() || is_external(current))) {
        pleat_torch_doubt_stream(device, stream); /* torch does not say whose */
    }
    return take(bytes, device, stream);
}

/* ---- free ---- */

bool Allocator::find_block(const void *ptr, pleat_block_info &out) const
{
    const auto address = reinterpret_cast<uintptr_t>(ptr);
    int i = 0;
    while (i < n_devices_ && pleat_block_query(instance(), i, address, &out) != PLEAT_OK) {
        i++;
    }
    return i < n_devices_;
}

void Allocator::give_told(void *ptr)
{
    pleat_block_info info;
    if (is_forked_child()) {
        return;
    }
    if (c10::memoryProfilingEnabled() && find_block(ptr, info)) {
        tell_profiler(ptr, -static_cast<int64_t>(info.bytes),
                      static_cast<DeviceIndex>(info.device));
    }
    const Recorder::Scope scope(recorder_, CA::RecordContext::ALL);
    pleat_piece piece;
    if (!pools_.give_foreign(ptr, piece)) {
        pleat_torch_delete(ptr);
    } else if (c10::memoryProfilingEnabled()) {
        tell_profiler(ptr, -static_cast<int64_t>(piece.bytes),
                      static_cast<DeviceIndex>(piece.device));
    }
}

void Allocator::give(void *ptr)
{
    Allocator *self = installed;
    if (C10_UNLIKELY(ptr == nullptr)) {
        return;
    }
    const c10::impl::PyInterpreter *python = c10::impl::GPUTrace::get_trace();
    if (C10_UNLIKELY(python != nullptr)) {
        (*python)->trace_gpu_memory_deallocation(c10::kCUDA, reinterpret_cast<uintptr_t>(ptr));
    }
    if (C10_LIKELY(!self->recorder_.is_on() && !self->pools_.has_foreign() &&
                   !was_profiled.load(std::memory_order_relaxed))) {
        pleat_torch_delete(ptr);
    } else {
        self->give_told(ptr);
    }
}

void Allocator::raw_delete(void *ptr)
{
    size_t bytes = 1;
    if (C10_UNLIKELY(!isEnabled())) {
        (void)pleat_torch_base_alloc(ptr, &bytes);
    }
    if (bytes > 0) {
        give(ptr);
    } else {
        free_uncached(ptr);
    }
}

c10::DeleterFnPtr Allocator::raw_deleter() const
{
    return isEnabled() ? &Allocator::give : &free_uncached;
}

/* ---- blocks ---- */

void Allocator::recordStream(const c10::DataPtr &ptr, c10::cuda::CUDAStream stream)
{
    /* Memory of other allocators, such as tensors of other processes, waits for no stream. */
    if (ptr.get() != nullptr && ptr.get_deleter() == &Allocator::give &&
        !(pools_.has_foreign() &&
          pools_.record_foreign(ptr.get(), { stream.device_index(), stream.stream() }))) {
        pleat_torch_record_stream(ptr.get(), handle_of(stream));
    }
}

void *Allocator::getBaseAllocation(void *ptr, size_t *bytes)
{
    size_t found = 0;
    void *base = nullptr;
    if (!pools_.has_foreign() || !pools_.base_of_foreign(ptr, base, found)) {
        base = pleat_torch_base_alloc(ptr, &found);
    }
    TORCH_CHECK(found > 0, "pleat: ", ptr, " lies in no live block");
    if (bytes != nullptr) {
        *bytes = found;
    }
    return base;
}

void Allocator::copy_data(void *to, const void *from, size_t bytes) const
{
    C10_CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice));
}

void Allocator::enable(bool value)
{
    is_enabled_ = value;
}

bool Allocator::isEnabled() const
{
    return is_enabled_.load(std::memory_order_relaxed);
}

} // namespace pleat_torch
