/* allocator.hpp - pleat as PyTorch's CUDAAllocator: a translation onto pleat's C interface.
 *
 * PyTorch changes this class from version to version, so it is compiled on the user's machine,
 * against the headers of the installed wheel (../_class.py). Functions that only some versions have
 * are declared without `override`: if the base class lacks such a function, nobody calls it.
 *
 * This class does not know how memory is managed. If pleat lacks a feature, a TORCH_CHECK says so.
 * */
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "pleat_torch.h"
#include "pools.hpp"
#include "recorder.hpp"
#include "versions.hpp"

namespace pleat_torch
{

/* Throws the failure of the thread's last call of pleat. */
[[noreturn]] void throw_last_error(const char *what);
inline void check(pleat_status status, const char *what)
{
    if (C10_UNLIKELY(status != PLEAT_OK)) {
        throw_last_error(what);
    }
}
pleat instance(); /* the default one */

/* CA::OomRejectionObserver, which older versions lack. */
using RejectionObserver = std::function<void(int64_t, size_t, size_t, size_t)>;

/* True in a forked child: it owns nothing here, and threads of its parent may have held a mutex. */
bool is_forked_child() noexcept;

/* The result of a callback of pleat. No exception passes through C: the first exception ends the
 * work, and is thrown again where the value is taken. */
template <typename Value>
struct Guarded {
    Value value{};
    std::exception_ptr problem;

    template <typename Work>
    void run(Work work) noexcept
    {
        try {
            if (!problem) {
                work();
            }
        } catch (...) {
            problem = std::current_exception();
        }
    }
    Value take()
    {
        if (problem) {
            std::rethrow_exception(problem);
        }
        return std::move(value);
    }
};

class Allocator final : public CA::CUDAAllocator
{
public:
    Allocator();

    /* ---- memory (memory.cpp) ---- */
    c10::DataPtr allocate(size_t bytes) override;
    c10::DeleterFnPtr raw_deleter() const override;
    void *raw_alloc(size_t bytes) override;
    void *raw_alloc_with_stream(size_t bytes, cudaStream_t stream) override;
    void raw_delete(void *ptr) override;
    void copy_data(void *to, const void *from, size_t bytes) const override;
    void recordStream(const c10::DataPtr &ptr, c10::cuda::CUDAStream stream) override;
    void *getBaseAllocation(void *ptr, size_t *bytes) override;
    void enable(bool value) override;
    bool isEnabled() const override;
    c10::DataPtr allocateWithAddress(size_t bytes, void *address); /* checkpoint.cpp */

    /* ---- devices (device.cpp) ---- */
    void init(int n_devices) override;
    bool initialized() override;
    std::string name() override;
    double getMemoryFraction(DeviceIndex device) override;
    void setMemoryFraction(double fraction, DeviceIndex device) override;
    void emptyCache();
    void emptyCache(MempoolId pool);
    void cacheInfo(DeviceIndex device, size_t *largest) override;
    c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex device) override;
    void resetAccumulatedStats(DeviceIndex device) override;
    void resetPeakStats(DeviceIndex device) override;
    void enablePeerAccess(DeviceIndex device, DeviceIndex peer) override;
    cudaError_t memcpyAsync(void *to, int to_device, const void *from, int from_device,
                            size_t bytes, cudaStream_t stream, bool is_p2p) override;
#if PLEAT_TORCH_HAS_SEGMENT_SIZES
    std::vector<CA::StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex device) override;
#endif

    /* ---- private pools (pools.cpp) ---- */
    void beginAllocateToPool(DeviceIndex device, MempoolId id,
                             std::function<bool(cudaStream_t)> filter) override;
    void endAllocateToPool(DeviceIndex device, MempoolId id) override;
    void releasePool(DeviceIndex device, MempoolId id) override;
    int getPoolUseCount(DeviceIndex device, MempoolId id);
    void ensureExistsAndIncrefPool(DeviceIndex device, MempoolId id);
    void createOrIncrefPool(DeviceIndex device, MempoolId id, CA::CUDAAllocator *from);
    void createOrIncrefPool(DeviceIndex device, MempoolId id,
                            std::shared_ptr<CA::CUDAAllocator> from);
    void setUseOnOOM(DeviceIndex device, MempoolId id);
    void setUseOnOOM(DeviceIndex device, MempoolId id, bool use_on_oom);
    void setNoSplit(DeviceIndex device, MempoolId id);

    /* ---- checkpoints of private pools (checkpoint.cpp) ---- */
    bool checkPoolLiveAllocations(DeviceIndex device, MempoolId id,
                                  const std::unordered_set<void *> &expected);
    std::shared_ptr<CA::AllocatorState> getCheckpointState(DeviceIndex device,
                                                           MempoolId id) override;
    CA::CheckpointDelta setCheckpointPoolState(DeviceIndex device,
                                               std::shared_ptr<CA::AllocatorState> state) override;

    /* ---- sharing between processes (share.cpp) ---- */
    CA::ShareableHandle shareIpcHandle(void *ptr) override;
    std::shared_ptr<void> getIpcDevPtr(std::string handle) override;

    /* ---- histories (history.cpp) ---- */
    bool isHistoryEnabled();
    void recordHistory(bool is_on, CA::CreateContextFn gather, size_t most, CA::RecordContext when);
    void recordHistory(bool is_on, CA::CreateContextFn gather, size_t most, CA::RecordContext when,
                       bool is_cleared);
    void recordHistory(bool is_on, CA::CreateContextFn gather, size_t most, CA::RecordContext when,
                       bool is_cleared, const std::vector<std::string> &skipped);
    void recordAnnotation(const std::vector<std::pair<std::string, std::string>> &metadata);
    void pushCompileContext(std::string &text);
    void popCompileContext();
    void setUserMetadata(const std::string &text);
    std::string getUserMetadata();
    bool supportsUserMetadata();
    void annotateMemory(const void *ptr, const std::string &text);
    std::shared_ptr<c10::GatheredContext> getContextForPointer(const void *ptr);
    void attachOutOfMemoryObserver(CA::OutOfMemoryObserver observer) override;
    void attachOomRejectionObserver(RejectionObserver observer);
    void attachAllocatorTraceTracker(CA::AllocatorTraceTracker tracker) override;
    CA::SnapshotInfo snapshot();
    CA::SnapshotInfo snapshot(MempoolId pool);
    CA::SnapshotInfo snapshot(MempoolId pool, bool with_traces);

private:
    void *take(size_t bytes, DeviceIndex device, cudaStream_t stream);
    void *take_told(size_t bytes, DeviceIndex device, cudaStream_t stream);
    void *take_uncached(size_t bytes);
    bool find_block(const void *ptr, pleat_block_info &out) const; /* on any device */
    void *take_short(size_t bytes, DeviceIndex device, cudaStream_t stream);
    void *take_foreign_short(size_t bytes, DeviceIndex device, cudaStream_t stream);
    pleat_stats all_stats(DeviceIndex device); /* of pleat's memory and others'; 0 without */
    void tell_profiler(void *ptr, int64_t bytes, DeviceIndex device);
    void refuse_early(size_t bytes, DeviceIndex device);
    void heed_rounding(size_t bytes);
    void round_anew();
    std::map<MempoolId, PoolSums> list_pools(DeviceIndex device);
    std::map<MempoolId, PoolSums> private_pools(DeviceIndex device);
    void give_told(void *ptr);
    void add_foreign(DeviceIndex device, MempoolId pool, CA::SnapshotInfo &out);
    [[noreturn]] void throw_shortage(size_t bytes, DeviceIndex device, pleat_status status,
                                     const std::string &text);
    static void give(void *ptr); /* the deleter */

    std::atomic<bool> is_enabled_;     /* false: memory is cudaMalloc's, for debugging */
    std::atomic<int> n_devices_{ 0 };  /* 0 = not initialised */
    /* Calls of emptyCache, by device; each call waits for every stream. */
    std::array<std::atomic<int64_t>, C10_COMPILE_TIME_MAX_GPUS> n_emptied_{};
    std::array<std::atomic<int64_t>, C10_COMPILE_TIME_MAX_GPUS> n_refused_{}; /* refuse_early */
    /* torch's setting roundup_power2_divisions, as last told to pleat. */
    std::array<std::atomic<size_t>, n_roundings> roundings_{};
    std::mutex mutex_;                 /* guards the next three */
    std::map<std::pair<DeviceIndex, MempoolId>, PoolSums> sums_before_; /* at the last reset */
    std::vector<CA::OutOfMemoryObserver> observers_;
    std::vector<RejectionObserver> refusal_observers_;
    Recorder recorder_;
    Budget budget_;
    Pools pools_{ recorder_, budget_ };
};

/* The installed allocator; NULL before. Never destroyed: tensors may outlive everything. */
extern Allocator *installed;

} // namespace pleat_torch
