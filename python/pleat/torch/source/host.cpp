/* host.cpp - pleat as PyTorch's allocator of pinned host memory (at::HostAllocator, since 2.10).
 *
 * Uses an instance of its own with memory:host (pleat_host.h), configured like the default instance
 * but without a limit. PyTorch names the streams that use a block, but names none when it deletes
 * the block. So each block remembers its last stream, and pleat can fence that stream at the free.
 * */
#include "allocator.hpp"

#if PLEAT_TORCH_HAS_HOST_ALLOCATOR

#include <ATen/core/CachingHostAllocator.h>

#include <algorithm>
#include <unordered_map>

#include "pleat_host.h"

namespace pleat_torch
{

namespace
{

struct HostBlock {
    void *ptr;
    int device;
    bool is_used;
    void *stream; /* is_used: the last stream that used the block */
};

/* Remove keys that get another value; a value may be a list in brackets. */
std::string without(const std::string &conf, const std::vector<std::string> &keys)
{
    std::string kept;
    for (size_t at = 0; at < conf.size();) {
        size_t end = at;
        for (int depth = 0; end < conf.size() && (depth > 0 || conf[end] != ','); end++) {
            depth += conf[end] == '[' ? 1 : conf[end] == ']' ? -1 : 0;
        }
        std::string entry = conf.substr(at, end - at);
        std::string key = entry.substr(0, entry.find(':'));
        if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
            kept += entry + ",";
        }
        at = end + 1;
    }
    return kept;
}

pleat make_host_instance()
{
    size_t needed = 0;
    pleat found;
    check(pleat_instance_conf(instance(), nullptr, 0, &needed), "no configuration");
    std::string conf(needed, '\0');
    check(pleat_instance_conf(instance(), conf.data(), needed, &needed), "no configuration");
    conf.resize(needed - 1);
    /* Captures are told to the default instance only; limits are about device memory. */
    conf = without(conf, { "memory", "limit", "peers", "shareable", "rdma", "capture", "history",
                           "fallback" });
    conf += "memory:host,limit:none,peers:True,capture:ask,history:0";
    check(pleat_create(conf.c_str(), &found), "the instance for pinned memory could not be made");
    return found;
}

void delete_host_block(void *context);

using HostStat = std::decay_t<decltype(at::HostStats().allocations)>;

HostStat host_stat(const pleat_stat &now, const pleat_stat &since)
{
    HostStat to;
    to.current = static_cast<int64_t>(now.current);
    to.peak = static_cast<int64_t>(now.peak);
    to.allocated = static_cast<int64_t>(now.allocated - since.allocated);
    to.freed = static_cast<int64_t>(now.freed - since.freed);
    return to;
}

class PinnedAllocator final : public at::HostAllocator
{
  public:
    c10::DataPtr allocate(size_t bytes) override
    {
        void *ptr = nullptr;
        if (bytes == 0) {
            return { nullptr, nullptr, &delete_host_block, c10::DeviceType::CPU };
        }
        int device = c10::cuda::current_device();
        check(pleat_host_alloc(host(), device, bytes, &ptr), "pinned memory");
        auto *block = new HostBlock{ ptr, device, false, nullptr };
        std::lock_guard<std::mutex> guard(lock_);
        blocks_[ptr] = block;
        return { ptr, block, &delete_host_block, c10::DeviceType::CPU };
    }

    /* PyTorch may name a block by its beginning alone, or name memory of another allocator. */
    bool record_event(void *ptr, void *context, c10::Stream stream) override
    {
        std::lock_guard<std::mutex> guard(lock_);
        HostBlock *block = find(ptr, context);
        if (block == nullptr) {
            return false;
        }
        void *handle = c10::cuda::CUDAStream(stream).stream();
        if (block->is_used && block->stream != handle) {
            check(pleat_host_record_stream(host(), block->device, block->ptr, block->stream),
                  "pinned memory");
        }
        block->is_used = true;
        block->stream = handle;
        return true;
    }

    void release(HostBlock *block)
    {
        {
            std::lock_guard<std::mutex> guard(lock_);
            blocks_.erase(block->ptr);
        }
        /* At the exit of the process the driver may be gone, and all memory with it. */
        (void)!pleat_host_free(host(), block->device, block->ptr,
                               block->is_used ? block->stream : PLEAT_HOST_UNUSED);
        delete block;
    }

    void empty_cache() override
    {
        for (int i = 0; i < n_devices(); i++) {
            pleat_status st = pleat_device_trim(host(), i, 0, true, nullptr);
            TORCH_CHECK(st == PLEAT_OK || st == PLEAT_EPENDING, pleat_last_error()->text);
        }
    }

    at::HostStats get_stats() override
    {
        at::HostStats to;
        pleat_stats now = read();
        std::lock_guard<std::mutex> guard(lock_);
        to.active_requests = host_stat(now.allocation[0], since_.allocation[0]);
        to.active_bytes = host_stat(now.allocated_bytes[0], since_.allocated_bytes[0]);
        to.allocations = host_stat(now.segment[0], since_.segment[0]);
        to.allocated_bytes = host_stat(now.reserved_bytes[0], since_.reserved_bytes[0]);
        to.num_host_alloc = static_cast<int64_t>(now.num_device_alloc - since_.num_device_alloc);
        to.num_host_free = static_cast<int64_t>(now.num_device_free - since_.num_device_free);
        return to;
    }

    void reset_accumulated_stats() override
    {
        pleat_stats now = read();
        std::lock_guard<std::mutex> guard(lock_);
        since_ = now;
    }

    void reset_peak_stats() override
    {
        for (int i = 0; i < n_devices(); i++) {
            check(pleat_device_reset_peaks(host(), i), "pinned memory");
        }
    }

    void copy_data(void *to, const void *from, size_t bytes) const override
    {
        default_copy_data(to, from, bytes);
    }

    /* Memory used by a graph waits for the graph's end without a pool. */
    void begin_allocate_to_pool(c10::MempoolId_t, std::function<bool(c10::Stream)>)
    {
    }
    void end_allocate_to_pool(c10::MempoolId_t)
    {
    }
    void release_pool(c10::MempoolId_t)
    {
    }

  private:
    std::mutex lock_;
    std::unordered_map<void *, HostBlock *> blocks_; /* lock_ */
    pleat_stats since_{};                            /* lock_ */

    static pleat host()
    {
        static pleat made = make_host_instance();
        return made;
    }

    static int n_devices()
    {
        return static_cast<int>(c10::cuda::device_count());
    }

    HostBlock *find(void *ptr, void *context)
    {
        auto at = blocks_.find(ptr);
        if (at != blocks_.end()) {
            return at->second;
        }
        for (const auto &entry : blocks_) {
            if (entry.second == context) {
                return entry.second;
            }
        }
        return nullptr;
    }

    static void add(pleat_stat &to, const pleat_stat &from)
    {
        to.current += from.current;
        to.peak += from.peak;
        to.allocated += from.allocated;
        to.freed += from.freed;
    }

    static pleat_stats read()
    {
        pleat_stats all{};
        for (int i = 0; i < n_devices(); i++) {
            pleat_stats one;
            check(pleat_device_stats(host(), i, &one), "pinned memory");
            add(all.allocation[0], one.allocation[0]);
            add(all.allocated_bytes[0], one.allocated_bytes[0]);
            add(all.segment[0], one.segment[0]);
            add(all.reserved_bytes[0], one.reserved_bytes[0]);
            all.num_device_alloc += one.num_device_alloc;
            all.num_device_free += one.num_device_free;
        }
        return all;
    }
};

PinnedAllocator *pinned; /* never deleted: tensors may outlive everything */

void delete_host_block(void *context)
{
    if (context != nullptr) {
        pinned->release(static_cast<HostBlock *>(context));
    }
}

} // namespace

static void install_pinned()
{
    TORCH_CHECK(installed != nullptr, "pleat is not PyTorch's allocator yet");
    TORCH_CHECK(pinned == nullptr, "pleat has PyTorch's pinned memory already");
    pinned = new PinnedAllocator;
    at::setHostAllocator(c10::DeviceType::CUDA, pinned, UINT8_MAX);
}

} // namespace pleat_torch

#else

namespace pleat_torch
{

static void install_pinned()
{
    TORCH_CHECK(false, "PyTorch before 2.10 does not let others allocate pinned memory");
}

} // namespace pleat_torch

#endif

/* Makes pleat PyTorch's allocator of pinned host memory, after pleat_torch_install. NULL, or why it
 * could not. */
extern "C" __attribute__((visibility("default"))) const char *pleat_torch_install_pinned(void)
{
    static thread_local std::string problem;
    try {
        pleat_torch::install_pinned();
        return nullptr;
    } catch (const std::exception &e) {
        problem = e.what();
        return problem.c_str();
    }
}
