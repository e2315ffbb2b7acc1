/* device.cpp - PyTorch's calls about devices: statistics, limits, caches, copies between devices.
 * */
#include "allocator.hpp"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <cstring>

namespace pleat_torch
{

namespace
{

using Stat = std::decay_t<decltype(c10::CachingDeviceAllocator::DeviceStats().allocation[0])>;

void copy_stat(Stat &to, const pleat_stat &from)
{
    to.current = static_cast<int64_t>(from.current);
    to.peak = static_cast<int64_t>(from.peak);
    to.allocated = static_cast<int64_t>(from.allocated);
    to.freed = static_cast<int64_t>(from.freed);
}

/* Both have their groups in PyTorch's order: all, small, large. */
template <typename Group> void copy_group(Group &to, const pleat_stat from[PLEAT_N_SIZES])
{
    for (size_t i = 0; i < PLEAT_N_SIZES; i++) {
        copy_stat(to[i], from[i]);
    }
}

/* What newer versions tell beside the figures of all. */
template <typename Stats, typename Lister>
auto add_newer(Stats &to, const Lister &list, int64_t n_refused, int)
    -> decltype(to.reserved_bytes_by_private_pools, void())
{
    for (const auto &[id, stats] : list()) {
        copy_group(to.reserved_bytes_by_private_pools[id], stats.data());
    }
    to.num_oom_rejections = n_refused;
}
template <typename Stats, typename Lister>
void add_newer(Stats & /*to*/, const Lister & /*list*/, int64_t /*n_refused*/, long)
{
}

pleat_device_info describe(DeviceIndex device)
{
    pleat_device_info info;
    check(pleat_device_query(instance(), device, &info), "the device could not be opened");
    return info;
}

} // namespace

void Allocator::init(int n_devices)
{
    pleat_torch_init(n_devices);
    n_devices_ = std::max(n_devices, 1);
    recorder_.start();
}

bool Allocator::initialized()
{
    return n_devices_ > 0;
}

std::string Allocator::name()
{
    return "pleat";
}

/* ---- limits ---- */

double Allocator::getMemoryFraction(DeviceIndex device)
{
    const pleat_device_info info = describe(device);
    const uint64_t limit = budget_.limit(device);
    return limit == 0 ? 1.0 : static_cast<double>(limit) / static_cast<double>(info.total_bytes);
}

void Allocator::setMemoryFraction(double fraction, DeviceIndex device)
{
    TORCH_CHECK(0 <= fraction && fraction <= 1, "invalid fraction:", fraction,
                ". Please set within [0, 1].");
    const uint64_t total = describe(device).total_bytes;
    const auto bytes = static_cast<uint64_t>(fraction * static_cast<double>(total) + 0.5);
    /* PyTorch's 0 allows nothing; pleat's 0 is no limit. */
    budget_.set_limit(device, fraction == 1 ? 0 : std::max<uint64_t>(bytes, 1));
}

/* ---- caches ---- */

void Allocator::emptyCache()
{
    if (is_forked_child()) {
        return;
    }
    (void)pools_.empty_foreign({ 0, 0 });
    (void)pools_.release_failed();
    const Recorder::Scope scope(recorder_, CA::RecordContext::ALL);
    pleat_torch_reset();
    for (int i = 0; i < n_devices_; i++) {
        n_emptied_[static_cast<size_t>(i)]++;
        budget_.renew(static_cast<DeviceIndex>(i));
    }
}

/* The free memory of a pool belongs to its graphs until the pool is released. Then the memory is
 * everybody's, and this call gives back as many bytes as the pool had. */
void Allocator::emptyCache(MempoolId pool)
{
    const bool is_all = pool == MempoolId{ 0, 0 };
    if (is_all) {
        emptyCache();
        return;
    }
    if (is_forked_child() || pools_.empty_foreign(pool) || pools_.is_used(pool)) {
        return;
    }
    const Recorder::Scope scope(recorder_, CA::RecordContext::ALL);
    if (!pools_.empty_ended(pool)) {
        emptyCache();
    }
}

/* What the driver still has, within the limit. */
static uint64_t room_of(const pleat_device_info &info, const pleat_stats &stats, DeviceIndex device)
{
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    check(pleat_device_memory_info(instance(), device, &free_bytes, &total_bytes),
          "the driver does not tell its free memory");
    if (info.limit_bytes == 0) {
        return free_bytes;
    }
    const uint64_t left = info.limit_bytes > stats.resident_bytes
                              ? info.limit_bytes - stats.resident_bytes
                              : 0;
    return std::min(free_bytes, left);
}

/* The largest request that succeeds without waiting. cuDNN searches for the fastest algorithm with
 * workspaces below this size. While pleat joins free granules with each other and with new
 * granules, the classic caches do not. */
void Allocator::cacheInfo(DeviceIndex device, size_t *largest)
{
    const pleat_device_info info = describe(device);
    pleat_stats stats = {};
    uint64_t piece = 0;
    check(pleat_device_stats(instance(), device, &stats), "no statistics");
    check(pleat_device_largest_free(instance(), device, &piece), "the memory cannot be listed");
    uint64_t whole = room_of(info, stats, device);
    const uint64_t tied_bytes = stats.tied_granules * stats.granule_bytes;
    if (std::strcmp(info.allocator, "pleat") == 0 && stats.free_bytes > tied_bytes) {
        whole += stats.free_bytes - tied_bytes;
    }
    *largest = std::max<size_t>({ *largest, whole, piece });
}

/* ---- statistics ---- */

pleat_stats Allocator::all_stats(DeviceIndex device)
{
    pleat_stats stats = {};
    (void)!pleat_device_stats(instance(), device, &stats);
    add_sums(stats, pools_.sums_of_foreign(device));
    return stats;
}

c10::CachingDeviceAllocator::DeviceStats Allocator::getDeviceStats(DeviceIndex device)
{
    c10::CachingDeviceAllocator::DeviceStats to;
    pleat_stats from;
    check(pleat_torch_device_stats(device, &from), "no statistics");
    add_sums(from, pools_.sums_of_foreign(device));
    copy_group(to.allocation, from.allocation);
    copy_group(to.segment, from.segment);
    copy_group(to.active, from.active);
    copy_group(to.inactive_split, from.inactive_split);
    copy_group(to.allocated_bytes, from.allocated_bytes);
    copy_group(to.reserved_bytes, from.reserved_bytes);
    copy_group(to.active_bytes, from.active_bytes);
    copy_group(to.inactive_split_bytes, from.inactive_split_bytes);
    copy_group(to.requested_bytes, from.requested_bytes);
    copy_stat(to.oversize_allocations, from.oversize_allocations);
    copy_stat(to.oversize_segments, from.oversize_segments);
    to.num_alloc_retries = static_cast<int64_t>(from.num_alloc_retries);
    to.num_ooms = static_cast<int64_t>(from.num_ooms);
    to.num_sync_all_streams = static_cast<int64_t>(from.num_sync_all_streams) +
                              n_emptied_.at(static_cast<size_t>(device));
    to.num_device_alloc = static_cast<int64_t>(from.num_device_alloc);
    to.num_device_free = static_cast<int64_t>(from.num_device_free);
    to.max_split_size = -1; /* pleat splits blocks of any size */
    add_newer(
        to, [&] { return private_pools(device); }, n_refused_.at(static_cast<size_t>(device)), 0);
    return to;
}

std::map<MempoolId, PoolSums> Allocator::list_pools(DeviceIndex device)
{
    std::map<MempoolId, PoolSums> pools = pools_.reserved_by_foreign(device);
    pleat_pool_id id;
    PoolSums stats;
    for (unsigned i = 0; pleat_pool_stats(instance(), device, i, &id, stats.data()) == PLEAT_OK;
         i++) {
        pools[{ id.first, id.second }] = stats;
    }
    return pools;
}

/* Sums count from the last reset. If a forgotten pool comes again under its old name, its sums
 * begin at 0. */
std::map<MempoolId, PoolSums> Allocator::private_pools(DeviceIndex device)
{
    auto pools = list_pools(device);
    const std::lock_guard<std::mutex> guard(mutex_);
    for (auto &[id, stats] : pools) {
        const auto before = sums_before_.find({ device, id });
        for (size_t i = 0; before != sums_before_.end() && i < stats.size(); i++) {
            const pleat_stat &base = before->second[i];
            if (base.allocated <= stats[i].allocated && base.freed <= stats[i].freed) {
                stats[i].allocated -= base.allocated;
                stats[i].freed -= base.freed;
            }
        }
    }
    return pools;
}

void Allocator::resetAccumulatedStats(DeviceIndex device)
{
    check(pleat_torch_reset_accumulated(device), "the sums stay as they were");
    pools_.reset_foreign_totals(device);
    n_emptied_.at(static_cast<size_t>(device)) = 0;
    n_refused_.at(static_cast<size_t>(device)) = 0;
    const auto pools = list_pools(device);
    const std::lock_guard<std::mutex> guard(mutex_);
    for (auto at = sums_before_.begin(); at != sums_before_.end();) {
        at = at->first.first == device ? sums_before_.erase(at) : std::next(at);
    }
    for (const auto &[id, stats] : pools) {
        sums_before_[{ device, id }] = stats;
    }
}

void Allocator::resetPeakStats(DeviceIndex device)
{
    check(pleat_device_reset_peaks(instance(), device), "the peaks stay as they were");
    pools_.reset_foreign_peaks(device);
}

#if PLEAT_TORCH_HAS_SEGMENT_SIZES
using Sizes = std::vector<CA::StreamSegmentSize>;

static void add_size(Sizes &list, const pleat_piece &piece)
{
    auto *stream = static_cast<cudaStream_t>(piece.stream);
    const auto is_its = [&](const CA::StreamSegmentSize &size) {
        return size.stream == stream && size.is_small_pool == piece.is_small;
    };
    auto at = std::find_if(list.begin(), list.end(), is_its);
    if (at == list.end()) {
        at = list.insert(at, CA::StreamSegmentSize(stream, piece.is_small, 0));
    }
    at->total_size += piece.bytes;
}

std::vector<CA::StreamSegmentSize> Allocator::getExpandableSegmentSizes(DeviceIndex device)
{
    Guarded<Sizes> sizes;
    const auto see = [](const pleat_piece *piece, void *context) {
        auto &guarded = *static_cast<Guarded<Sizes> *>(context);
        guarded.run([&] { add_size(guarded.value, *piece); });
    };
    check(pleat_visit(instance(), device, see, &sizes), "the memory cannot be listed");
    return sizes.take();
}
#endif

/* ---- several devices ---- */

/* Maps memory of cudaMalloc. Kernels on other devices reach pleat's memory only with peers:True, an
 * option of the configuration; copies always work. */
void Allocator::enablePeerAccess(DeviceIndex device, DeviceIndex peer)
{
    const c10::cuda::CUDAGuard guard(device);
    const cudaError_t error = cudaDeviceEnablePeerAccess(peer, 0);
    if (error == cudaErrorPeerAccessAlreadyEnabled) {
        (void)cudaGetLastError();
    } else {
        C10_CUDA_CHECK(error);
    }
}

/* cudaMemcpyAsync would need memory mapped for the peer; cudaMemcpyPeerAsync does not. */
cudaError_t Allocator::memcpyAsync(void *to, int to_device, const void *from, int from_device,
                                   size_t bytes, cudaStream_t stream, bool /*is_p2p*/)
{
    if (to_device == from_device) {
        return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
    }
    return cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, stream);
}

} // namespace pleat_torch
