/* shortage.cpp - remedies when pleat finds no memory, and the report of the failure. */
#include "allocator.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

namespace pleat_torch
{

namespace
{

/* Words a size as PyTorch does. */
std::string size_text(uint64_t bytes)
{
    static const char *const units[] = { "KiB", "MiB", "GiB" };
    double value = static_cast<double>(bytes) / 1024;
    size_t unit = 0;
    char text[64];
    if (bytes <= 1024) {
        return std::to_string(bytes) + " bytes";
    }
    if (bytes >= uint64_t{ 1 } << 60) {
        return "more than 1EB memory";
    }
    while (unit < 2 && value > 1024) {
        value /= 1024;
        unit++;
    }
    std::snprintf(text, sizeof text, "%.2f %s", value, units[unit]);
    return text;
}

bool is_shortage(pleat_status status)
{
    return status == PLEAT_ENOMEM_DEVICE || status == PLEAT_EPENDING ||
           status == PLEAT_ENOSPACE_VA || status == PLEAT_ESIZE;
}

/* Callbacks of libraries that hold memory back, such as shared tensors without users. */
bool run_callbacks()
{
    bool has_freed = false;
    for (const auto &name : c10::FreeCudaMemoryCallbacksRegistry()->Keys()) {
        has_freed |= c10::FreeCudaMemoryCallbacksRegistry()->Create(name)->Execute();
    }
    return has_freed;
}

} // namespace

pleat instance()
{
    pleat found;
    check(pleat_default(&found), "the instance could not be made");
    return found;
}

[[noreturn]] void throw_last_error(const char *what)
{
    const std::string text = pleat_last_error()->text;
    TORCH_CHECK(false, "pleat: ", what, ": ", text);
}

[[noreturn]] void Allocator::throw_shortage(size_t bytes, DeviceIndex device, pleat_status status,
                                            const std::string &text)
{
    TORCH_CHECK(is_shortage(status), "pleat: ", text);
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    (void)!pleat_device_memory_info(instance(), device, &free_bytes, &total_bytes);
    const pleat_stats stats = all_stats(device);
    const uint64_t allocated = stats.allocated_bytes[PLEAT_SIZES_ALL].current;
    const uint64_t reserved = stats.reserved_bytes[PLEAT_SIZES_ALL].current;
    c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(bytes), allocated, reserved,
                                     c10::Device(c10::kCUDA, device));
    std::vector<CA::OutOfMemoryObserver> observers;
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        observers = observers_;
    }
    for (const auto &observer : observers) {
        observer(device, bytes, total_bytes, free_bytes);
    }
    TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate ",
                     size_text(bytes), ". GPU ", static_cast<int>(device),
                     " has a total capacity of ", size_text(total_bytes), " of which ",
                     size_text(free_bytes), " is free. pleat: ", text);
}

/* With torch's setting throw_on_cudamalloc_oom, too many live bytes are an error at once: more than
 * torch's setting per_process_memory_fraction, or than a fraction set later. */
void Allocator::refuse_early([[maybe_unused]] size_t bytes, [[maybe_unused]] DeviceIndex device)
{
#if PLEAT_TORCH_HAS_EARLY_REFUSAL
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    check(pleat_device_memory_info(instance(), device, &free_bytes, &total_bytes),
          "the driver does not tell its free memory");
    const pleat_stats stats = all_stats(device);
    const double fraction = std::min(CA::CUDAAllocatorConfig::per_process_memory_fraction(),
                                     getMemoryFraction(device));
    const auto most = static_cast<uint64_t>(fraction * static_cast<double>(total_bytes));
    const uint64_t allocated = stats.allocated_bytes[PLEAT_SIZES_ALL].current;
    if (bytes <= most && allocated <= most - bytes) {
        return;
    }
    n_refused_.at(static_cast<size_t>(device))++;
    std::vector<RejectionObserver> observers;
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        observers = refusal_observers_;
    }
    for (const auto &observer : observers) {
        observer(device, bytes, allocated, total_bytes);
    }
    TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate ",
                     size_text(bytes), ". GPU ", static_cast<int>(device), " has ",
                     size_text(allocated), " allocated, and PyTorch's settings refuse more than ",
                     size_text(most));
#endif
}

/* The remedies call pleat, too, so the error is kept from before. */
void *Allocator::take_short(size_t bytes, DeviceIndex device, cudaStream_t stream)
{
    const Recorder::Scope scope(recorder_, CA::RecordContext::STATE);
    void *ptr = nullptr;
    pleat_status status = pleat_last_error()->status;
    std::string text = pleat_last_error()->text;
    if (is_shortage(status) &&
        (pools_.empty_foreign({ 0, 0 }) | pools_.release_failed() | run_callbacks())) {
        ptr = pleat_torch_malloc(bytes, device, stream);
        if (ptr == nullptr) {
            status = pleat_last_error()->status;
            text = pleat_last_error()->text;
        }
    }
    if (is_shortage(status) && ptr == nullptr) {
        ptr = pools_.take_lent(bytes, device, stream);
    }
    if (ptr == nullptr) {
        throw_shortage(bytes, device, status, text);
    }
    return ptr;
}

/* Like take_short, for a pool whose own allocator has no memory. */
void *Allocator::take_foreign_short(size_t bytes, DeviceIndex device, cudaStream_t stream)
{
    const Recorder::Scope scope(recorder_, CA::RecordContext::STATE);
    bool is_short = false;
    void *ptr = run_callbacks() ? pools_.take_foreign(bytes, device, stream, is_short) : nullptr;
    if (ptr == nullptr) {
        ptr = pools_.take_lent(bytes, device, stream);
    }
    if (ptr == nullptr) {
        uint64_t free_bytes = 0;
        uint64_t total_bytes = 0;
        (void)!pleat_device_memory_info(instance(), device, &free_bytes, &total_bytes);
        pools_.note_shortage({ PLEAT_CHANGE_OOM, device, free_bytes, bytes, stream, {} });
        throw_shortage(bytes, device, PLEAT_ENOMEM_DEVICE,
                       "the request is for a private pool whose allocator has no memory, or the "
                       "memory fraction leaves it none");
    }
    return ptr;
}

} // namespace pleat_torch
