/* foreign_pools.cpp - Pools as far as others' memory is concerned: see pools.hpp. The mutex is not
 * held while others' code runs: filters, trackers, and the allocators of pools. */
#include "allocator.hpp"

#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <set>

namespace pleat_torch
{

namespace
{

/* Wait for the stream's work, without breaking captures of other threads. False: the stream itself
 * is being captured. */
bool wait_for(cudaStream_t stream)
{
    const Relaxed relaxed;
    const StreamState state = state_of(stream);
    if (state == StreamState::open) {
        (void)cudaStreamSynchronize(stream);
        (void)cudaGetLastError();
    }
    return state != StreamState::captured;
}

} // namespace

Pools::Cache Pools::make_cache(Key key, Source from)
{
    return std::make_shared<Foreign>(std::move(from), key.first, key.second, sums_[key.first]);
}

void Pools::tell(const pleat_piece &piece, pleat_change_kind kind)
{
    recorder_.tell_foreign({ kind, piece.device, piece.base, piece.requested_bytes, piece.stream,
                             piece.pool });
}

void Pools::tell(const Gone &gone, pleat_change_kind kind)
{
    recorder_.tell_foreign({ kind, gone.device, reinterpret_cast<uintptr_t>(gone.segment.ptr),
                             gone.segment.bytes, gone.segment.stream, pool_id(gone.pool) });
}

/* ---- allocate ---- */

/* NULL: the request goes to no such pool. */
Pools::Cache Pools::route_foreign(DeviceIndex device, cudaStream_t stream)
{
    const std::shared_ptr<Route> route = is_forked_child() ? nullptr : find_route(device, stream);
    if (!route || !route->is_foreign) {
        return nullptr;
    }
    const std::lock_guard<std::mutex> guard(mutex_);
    Cache cache = find(route->pool, "nothing to allocate from").foreign;
    cache->n_busy++; /* the pool may end meanwhile */
    return cache;
}

void Pools::leave(const Cache &cache)
{
    const std::lock_guard<std::mutex> guard(mutex_);
    cache->n_busy--;
}

/* A block of the cache's free memory, or NULL. The block is reported before any other thread can
 * free it. */
void *Pools::hand_out(const Cache &cache, size_t bytes, cudaStream_t stream)
{
    pleat_piece piece;
    void *ptr;
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        cache->settle();
        ptr = cache->take(bytes, stream);
        if (ptr == nullptr) {
            return nullptr;
        }
        piece = cache->look(ptr);
        live_[ptr] = cache;
        n_foreign_++;
    }
    tell(piece, PLEAT_CHANGE_ALLOC);
    return ptr;
}

/* A segment from the pool's allocator; ptr NULL = the allocator has none. */
Foreign::Segment Pools::grow(const Foreign &cache, size_t bytes, cudaStream_t stream)
{
    const Foreign::Sizes sizes = cache.sizes_of(bytes);
    Foreign::Segment segment = { nullptr, sizes.segment, stream, sizes.is_small };
    if (!budget_.charge(cache.device, segment.bytes)) {
        return segment;
    }
    try {
        const Relaxed relaxed;
        segment.ptr = cache.from->raw_alloc_with_stream(segment.bytes, stream);
    } catch (...) {
        budget_.discharge(cache.device, segment.bytes);
        throw;
    }
    if (segment.ptr == nullptr) {
        budget_.discharge(cache.device, segment.bytes);
    }
    return segment;
}

/* NULL: the pool's allocator has no more. */
void *Pools::take_from(const Cache &cache, size_t bytes, cudaStream_t stream)
{
    void *ptr = hand_out(cache, bytes, stream);
    while (ptr == nullptr) { /* another thread may be faster to take the segment */
        Foreign::Segment segment = grow(*cache, bytes, stream);
        if (segment.ptr == nullptr) { /* give free memory back to the driver */
            (void)empty_foreign({ 0, 0 });
            pleat_torch_reset();
            segment = grow(*cache, bytes, stream);
            const std::lock_guard<std::mutex> guard(mutex_);
            sums_[cache->device].num_alloc_retries++;
        }
        if (segment.ptr == nullptr) {
            return nullptr;
        }
        tell({ cache->from, segment, cache->device, cache->pool }, PLEAT_CHANGE_SEGMENT_ALLOC);
        {
            const std::lock_guard<std::mutex> guard(mutex_);
            cache->add(segment);
            sums_[cache->device].num_device_alloc++;
        }
        ptr = hand_out(cache, bytes, stream);
    }
    return ptr;
}

void *Pools::take_foreign(size_t bytes, DeviceIndex device, cudaStream_t stream, bool &is_short)
{
    const Cache cache = route_foreign(device, stream);
    if (!cache) {
        return nullptr;
    }
    void *ptr = nullptr;
    try {
        ptr = take_from(cache, bytes, stream);
    } catch (...) {
        leave(cache);
        throw;
    }
    leave(cache);
    is_short = ptr == nullptr;
    return ptr;
}

void Pools::note_shortage(const pleat_change &change)
{
    recorder_.tell_foreign(change);
    const std::lock_guard<std::mutex> guard(mutex_);
    sums_[static_cast<DeviceIndex>(change.device)].num_ooms++;
}

void *Pools::lend_foreign(size_t bytes, DeviceIndex device, cudaStream_t stream)
{
    std::vector<Cache> lenders;
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        for (const auto &[key, pool] : pools_) {
            if (pool.lends && pool.foreign && key.first == device) {
                lenders.push_back(pool.foreign);
            }
        }
    }
    void *ptr = nullptr;
    for (size_t i = 0; i < lenders.size() && ptr == nullptr; i++) {
        ptr = hand_out(lenders[i], bytes, stream);
    }
    return ptr;
}

/* ---- free and record ---- */

bool Pools::give_foreign(void *ptr, pleat_piece &piece)
{
    Cache cache;
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        const auto at = live_.find(ptr);
        if (at == live_.end()) {
            return false;
        }
        cache = std::move(at->second);
        live_.erase(at);
        n_foreign_--;
        piece = cache->look(ptr);
    }
    /* Reported before any other thread gets the block. The end of its uses on further streams is
     * reported here, too, since nobody could report it later. */
    tell(piece, PLEAT_CHANGE_FREE_REQUESTED);
    tell(piece, PLEAT_CHANGE_FREE_COMPLETED);
    const std::lock_guard<std::mutex> guard(mutex_);
    cache->give(ptr);
    return true;
}

bool Pools::look_foreign(void *ptr, pleat_piece &piece)
{
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto at = live_.find(ptr);
    if (at != live_.end()) {
        piece = at->second->look(ptr);
    }
    return at != live_.end();
}

bool Pools::record_foreign(void *ptr, DeviceStream stream)
{
    if (is_forked_child()) {
        return false;
    }
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto at = live_.find(ptr);
    if (at != live_.end()) {
        at->second->record(ptr, stream);
    }
    return at != live_.end();
}

/* As PyTorch shares memory: from the first byte that the driver knows. */
bool Pools::base_of_foreign(void *ptr, void *&base, size_t &bytes)
{
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto at = live_.find(ptr);
    if (at == live_.end()) {
        return false;
    }
    const Foreign::Segment segment = at->second->segment_of(ptr);
    base = segment.ptr;
    bytes = segment.bytes;
    return true;
}

/* ---- give back ---- */

/* Give a segment back. Throws the exception of its allocator; even then the segment is gone. */
void Pools::drop(const Gone &gone)
{
    tell(gone, PLEAT_CHANGE_SEGMENT_FREE);
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        sums_[gone.device].num_device_free++;
    }
    budget_.discharge(gone.device, gone.segment.bytes);
    const Relaxed relaxed;
    if (!gone.from) {
        (void)cudaFree(gone.segment.ptr);
    } else if (!may_be_gone(gone.from)) {
        gone.from->raw_delete(gone.segment.ptr);
    }
}

/* A segment goes back when the work of its stream is over; recorded uses of other streams are over
 * already. If a capture forbids the wait, the segment is kept until the next call. */
void Pools::drop(std::vector<Gone> gone)
{
    std::map<DeviceStream, bool> is_over;
    std::exception_ptr problem;
    for (Gone &one : gone) {
        try {
            const c10::cuda::CUDAGuard on(one.device);
            const auto [at, is_new] = is_over.insert({ { one.device, one.segment.stream }, false });
            if (is_new) {
                at->second = wait_for(one.segment.stream);
            }
            if (at->second) {
                drop(one);
            } else {
                one.from = is_lent(one.from) ? nullptr : one.from;
                const std::lock_guard<std::mutex> guard(mutex_);
                kept_.push_back(one);
            }
        } catch (...) {
            problem = std::current_exception();
        }
    }
    if (problem) {
        std::rethrow_exception(problem);
    }
}

/* Idle segments of pools that have ended; empty caches go. A pool's owner may drop a lent allocator
 * once the pool has ended: then cudaFree frees the segments, as in older versions of PyTorch. */
std::vector<Pools::Gone> Pools::take_ended(const std::vector<Cache> &ended)
{
    std::vector<Gone> gone;
    const std::lock_guard<std::mutex> guard(mutex_);
    gone.swap(kept_);
    for (const Cache &cache : ended) {
        cache->settle();
        const bool is_theirs = is_lent(cache->from) && cache->was_emptied;
        cache->was_emptied = true;
        for (const Foreign::Segment &segment : cache->take_idle()) {
            gone.push_back({ is_theirs ? nullptr : cache->from, segment, cache->device,
                             cache->pool });
        }
    }
    const auto is_empty = [](const Cache &cache) {
        return cache->is_empty() && cache->n_busy == 0;
    };
    ended_caches_.erase(std::remove_if(ended_caches_.begin(), ended_caches_.end(), is_empty),
                        ended_caches_.end());
    return gone;
}

bool Pools::empty_foreign(MempoolId id)
{
    std::vector<Cache> ended;
    std::set<DeviceStream> awaited;
    if (is_forked_child()) {
        return false;
    }
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        for (const Cache &cache : ended_caches_) {
            if (id == MempoolId{ 0, 0 } || id == cache->pool) {
                ended.push_back(cache);
                const auto streams = cache->awaited();
                awaited.insert(streams.begin(), streams.end());
            }
        }
    }
    for (const auto &[device, stream] : awaited) {
        const c10::cuda::CUDAGuard on(device);
        (void)wait_for(stream);
    }
    std::vector<Gone> gone = take_ended(ended);
    const bool is_found = !ended.empty() || (id == MempoolId{ 0, 0 } && !gone.empty());
    drop(std::move(gone));
    return is_found;
}

/* ---- being looked at ---- */

/* Caches of existing pools, and of pools that have ended. The mutex is held. */
std::vector<Pools::Cache> Pools::caches_of(DeviceIndex device) const
{
    std::vector<Cache> caches;
    for (const auto &[key, pool] : pools_) {
        if (pool.foreign && key.first == device) {
            caches.push_back(pool.foreign);
        }
    }
    for (const Cache &cache : ended_caches_) {
        if (cache->device == device) {
            caches.push_back(cache);
        }
    }
    return caches;
}

void Pools::visit_foreign(DeviceIndex device, const std::function<void(const pleat_piece &)> &see)
{
    const std::lock_guard<std::mutex> guard(mutex_);
    for (const Cache &cache : caches_of(device)) {
        cache->visit(see);
    }
    for (const Gone &one : kept_) {
        if (one.device == device) {
            see({ device, reinterpret_cast<uintptr_t>(one.segment.ptr), one.segment.bytes, 0,
                  one.segment.stream, pool_id(one.pool), PLEAT_PIECE_AWAITED, true,
                  one.segment.is_small, false });
        }
    }
}

pleat_stats Pools::sums_of_foreign(DeviceIndex device)
{
    if (is_forked_child()) {
        return {};
    }
    const std::lock_guard<std::mutex> guard(mutex_);
    return sums_[device];
}

std::map<MempoolId, PoolSums> Pools::reserved_by_foreign(DeviceIndex device)
{
    std::map<MempoolId, PoolSums> reserved;
    const std::lock_guard<std::mutex> guard(mutex_);
    for (const Cache &cache : caches_of(device)) {
        reserved[cache->pool] = cache->reserved;
    }
    return reserved;
}

void Pools::reset_foreign_totals(DeviceIndex device)
{
    const std::lock_guard<std::mutex> guard(mutex_);
    reset_totals(sums_[device]);
}

void Pools::reset_foreign_peaks(DeviceIndex device)
{
    const std::lock_guard<std::mutex> guard(mutex_);
    reset_peaks(sums_[device]);
    for (const Cache &cache : caches_of(device)) {
        for (pleat_stat &stat : cache->reserved) {
            stat.peak = stat.current;
        }
    }
}

} // namespace pleat_torch
