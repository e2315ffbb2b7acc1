/* pools.cpp - see pools.hpp; and what PyTorch calls for its pools. The mutex is not held while
 * others' code runs: filters, and allocators of pools. */
#include "allocator.hpp"

#include <c10/cuda/CUDAGuard.h>

#include <algorithm>

namespace pleat_torch
{

namespace
{

bool call_filter(void *stream, void *context)
{
    try {
        return (*static_cast<Filter *>(context))(static_cast<cudaStream_t>(stream));
    } catch (...) {
        return false; /* an exception cannot pass through C */
    }
}

void forget_filter(void *context)
{
    delete static_cast<Filter *>(context);
}

thread_local bool is_borrowing;

bool accept_borrower(void * /*stream*/, void * /*context*/)
{
    return is_borrowing;
}

/* False: a capture of the device forbids it, or the device is broken. */
bool wait_for_device()
{
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    const cudaError_t error = cudaDeviceSynchronize();
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    (void)cudaGetLastError();
    return error == cudaSuccess;
}

void begin_at_pleat(DeviceIndex device, MempoolId id, pleat_route_fn route, pleat_forget_fn forget,
                    void *context)
{
    check(pleat_pool_begin(instance(), device, pool_id(id), route, forget, context),
          "the private pool could not be begun");
}

} // namespace

/* ---- users and routes ---- */

Pools::Pool &Pools::find(Key key, const char *what)
{
    const auto at = pools_.find(key);
    TORCH_CHECK(at != pools_.end(), "pleat: ", what, ": device ", static_cast<int>(key.first),
                " has no private pool (", key.second.first, ", ", key.second.second, ")");
    return at->second;
}

void Pools::use(DeviceIndex device, MempoolId id, Source from)
{
    const std::lock_guard<std::mutex> guard(mutex_);
    Pool &pool = pools_[{ device, id }];
    if (pool.n_users == 0) {
        pool.from = std::move(from);
    }
    if (!pool.from) {
        check(pleat_pool_hold(instance(), device, pool_id(id)),
              "the private pool could not be made");
    }
    pool.n_users++;
}

/* A pool that was counted before it was known to have an allocator: pleat has it no more. */
void Pools::set_source(Pool &pool, Key key, Source from)
{
    for (int n = pool.n_users; n > 0; n--) {
        pleat_torch_release_pool(key.first, pool_id(key.second));
    }
    pool.from = std::move(from);
}

void Pools::begin(DeviceIndex device, MempoolId id, Filter filter)
{
    const Key key{ device, id };
    const std::lock_guard<std::mutex> guard(mutex_);
    Pool &pool = pools_[key];
    CA::CUDAAllocator *own = allocator_of_active_pool(id);
    if (own && !pool.from) {
        set_source(pool, key, borrow(own));
    }
    if (pool.from) {
        routes_.push_back({ key, std::move(filter) });
        n_foreign_++;
    } else if (filter) {
        auto *kept = new Filter(std::move(filter));
        begin_at_pleat(device, id, call_filter, forget_filter, kept);
    } else {
        begin_at_pleat(device, id, nullptr, nullptr, nullptr);
    }
    pool.n_users++;
}

void Pools::end(DeviceIndex device, MempoolId id)
{
    const Key key{ device, id };
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        const auto is_its = [&](const Route &route) { return route.pool == key; };
        const auto at = std::find_if(routes_.rbegin(), routes_.rend(), is_its);
        if (at != routes_.rend()) {
            routes_.erase(std::next(at).base());
            n_foreign_--;
            return;
        }
    }
    pleat_torch_end_pool(device, pool_id(id));
}

void Pools::forget(Key key, std::vector<Block> &gone)
{
    const auto at = pools_.find(key);
    take_all(at->second, gone);
    pools_.erase(at);
}

void Pools::release(DeviceIndex device, MempoolId id)
{
    std::vector<Block> gone;
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        Pool &pool = find({ device, id }, "nothing to release");
        if (!pool.from) {
            note_end(pool, { device, id });
            pleat_torch_release_pool(device, pool_id(id));
        }
        if (--pool.n_users == 0) {
            forget({ device, id }, gone);
        }
    }
    if (!gone.empty()) {
        drop(std::move(gone));
    }
}

int Pools::use_count(DeviceIndex device, MempoolId id)
{
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto at = pools_.find({ device, id });
    return at == pools_.end() ? 0 : at->second.n_users;
}

/* ---- memory that pools lend ---- */

void Pools::set_lending(DeviceIndex device, MempoolId id, bool lends)
{
    const std::lock_guard<std::mutex> guard(mutex_);
    find({ device, id }, "use_on_oom cannot be set").lends = lends;
}

void *Pools::take_lent(size_t bytes, DeviceIndex device, cudaStream_t stream)
{
    std::vector<MempoolId> lenders;
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        for (const auto &[key, pool] : pools_) {
            if (pool.lends && !pool.from && key.first == device) {
                lenders.push_back(key.second);
            }
        }
    }
    void *ptr = nullptr;
    for (size_t i = 0; i < lenders.size() && ptr == nullptr && !is_borrowing; i++) {
        const pleat_pool_id id = pool_id(lenders[i]);
        if (pleat_pool_begin(instance(), device, id, accept_borrower, nullptr, nullptr) !=
            PLEAT_OK) {
            continue;
        }
        is_borrowing = true;
        ptr = pleat_torch_malloc(bytes, device, stream);
        is_borrowing = false;
        pleat_torch_end_pool(device, id);
        pleat_torch_release_pool(device, id);
    }
    return ptr;
}

/* ---- memory that is not pleat's ---- */

void Pools::tell(const Block &block, std::initializer_list<pleat_change_kind> changes)
{
    for (const pleat_change_kind kind : changes) {
        recorder_.tell_foreign({ kind, block.device, reinterpret_cast<uintptr_t>(block.ptr),
                                 block.bytes, block.stream, pool_id(block.pool.second) });
    }
}

/* Are its uses on other streams over? What a capture records now would be an event of the graph, so
 * a stream that is being captured is asked later. */
bool Pools::is_over(Block &block)
{
    const c10::cuda::CUDAGuard guard(block.device);
    const auto mark = [&](cudaStream_t stream) {
        cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
        cudaEvent_t event = nullptr;
        if (cudaStreamIsCapturing(stream, &capture) != cudaSuccess) {
            return true; /* the stream is gone */
        }
        if (capture != cudaStreamCaptureStatusNone ||
            cudaEventCreateWithFlags(&event, cudaEventDisableTiming) != cudaSuccess) {
            return false;
        }
        block.events.push_back(event);
        return cudaEventRecord(event, stream) == cudaSuccess;
    };
    const auto has_passed = [](cudaEvent_t event) {
        const bool passed = cudaEventQuery(event) != cudaErrorNotReady;
        if (passed) {
            (void)cudaEventDestroy(event);
        }
        return passed;
    };
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed; /* others may be capturing */
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    auto &uses = block.uses;
    auto &events = block.events;
    uses.erase(std::remove_if(uses.begin(), uses.end(), mark), uses.end());
    events.erase(std::remove_if(events.begin(), events.end(), has_passed), events.end());
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    (void)cudaGetLastError();
    return uses.empty() && events.empty();
}

void Pools::settle(Pool &pool)
{
    for (size_t i = pool.pending.size(); i-- > 0;) {
        if (is_over(pool.pending[i])) {
            pool.idle.push_back(std::move(pool.pending[i]));
            pool.pending.erase(pool.pending.begin() + static_cast<ptrdiff_t>(i));
        }
    }
}

void *Pools::take_foreign(size_t bytes, DeviceIndex device, cudaStream_t stream)
{
    std::vector<Route> routes;
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        routes = routes_;
    }
    const auto accepts = [&](const Route &route) {
        return route.pool.first == device && (!route.filter || route.filter(stream));
    };
    const auto route = std::find_if(routes.rbegin(), routes.rend(), accepts);
    if (route == routes.rend()) {
        return nullptr;
    }
    Block block = { nullptr, bytes, stream, device, nullptr, route->pool, {}, {} };
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        Pool &pool = find(route->pool, "nothing to allocate from");
        const auto fits = [&](const Block &idle) {
            return idle.bytes == bytes && idle.stream == stream;
        };
        settle(pool);
        const auto at = std::find_if(pool.idle.begin(), pool.idle.end(), fits);
        block.from = pool.from;
        if (at != pool.idle.end()) {
            block.ptr = at->ptr;
            pool.idle.erase(at);
        }
    }
    const bool is_new = block.ptr == nullptr;
    if (is_new) {
        block.ptr = block.from->raw_alloc_with_stream(bytes, stream);
    }
    TORCH_CHECK_WITH(OutOfMemoryError, block.ptr != nullptr, "CUDA out of memory. The allocator of "
                     "the private pool has no ", bytes, " bytes");
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        live_[block.ptr] = block;
        n_foreign_++;
    }
    if (is_new) {
        tell(block, { PLEAT_CHANGE_SEGMENT_ALLOC });
    }
    tell(block, { PLEAT_CHANGE_ALLOC });
    return block.ptr;
}

/* Blocks go back when all work of their device is over: nobody knows on which streams the last uses
 * were. Where a capture forbids to wait for it they are kept for the next time. */
void Pools::drop(std::vector<Block> blocks)
{
    std::map<DeviceIndex, bool> is_idle;
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        blocks.insert(blocks.end(), kept_.begin(), kept_.end());
        kept_.clear();
    }
    for (Block &block : blocks) {
        const c10::cuda::CUDAGuard on(block.device);
        if (is_idle.count(block.device) == 0) {
            is_idle[block.device] = wait_for_device();
        }
        if (!is_idle[block.device]) {
            const std::lock_guard<std::mutex> guard(mutex_);
            kept_.push_back(block);
            continue;
        }
        for (const cudaEvent_t event : block.events) {
            (void)cudaEventDestroy(event);
        }
        tell(block, { PLEAT_CHANGE_SEGMENT_FREE });
        if (!may_be_gone(block.from)) {
            block.from->raw_delete(block.ptr);
        }
    }
}

bool Pools::record_foreign(void *ptr, cudaStream_t stream)
{
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto at = live_.find(ptr);
    if (at == live_.end()) {
        return false;
    }
    auto &uses = at->second.uses;
    if (stream != at->second.stream && std::find(uses.begin(), uses.end(), stream) == uses.end()) {
        uses.push_back(stream);
    }
    return true;
}

bool Pools::give_foreign(void *ptr)
{
    std::vector<Block> gone;
    Block block;
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        const auto at = live_.find(ptr);
        if (at == live_.end()) {
            return false;
        }
        block = std::move(at->second);
        live_.erase(at);
        n_foreign_--;
    }
    /* Before anybody else gets it. That its other uses are over is told at once, too: nobody would
     * be there to tell it later. */
    tell(block, { PLEAT_CHANGE_FREE_REQUESTED, PLEAT_CHANGE_FREE_COMPLETED });
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        const auto pool = pools_.find(block.pool);
        if (pool == pools_.end() || pool->second.from != block.from) {
            gone.push_back(std::move(block));
        } else if (is_over(block)) {
            pool->second.idle.push_back(std::move(block));
        } else {
            pool->second.pending.push_back(std::move(block));
        }
    }
    if (!gone.empty()) {
        drop(std::move(gone));
    }
    return true;
}

void Pools::take_all(Pool &pool, std::vector<Block> &gone)
{
    for (auto *blocks : { &pool.idle, &pool.pending }) {
        gone.insert(gone.end(), blocks->begin(), blocks->end());
        blocks->clear();
    }
}

bool Pools::empty_foreign(MempoolId id)
{
    std::vector<Block> gone;
    bool is_found = false;
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        for (auto &[key, pool] : pools_) {
            if (pool.from && (id == MempoolId{ 0, 0 } || id == key.second)) {
                is_found = true;
                take_all(pool, gone);
            }
        }
        is_found = is_found || !kept_.empty();
    }
    if (is_found) {
        drop(std::move(gone));
    }
    return is_found;
}

bool Pools::is_used(MempoolId id)
{
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto is_its = [&](const auto &entry) { return entry.first.second == id; };
    return std::find_if(pools_.begin(), pools_.end(), is_its) != pools_.end();
}

std::vector<MempoolId> Pools::of_pleat(DeviceIndex device)
{
    std::vector<MempoolId> ids;
    const std::lock_guard<std::mutex> guard(mutex_);
    for (const auto &[key, pool] : pools_) {
        if (key.first == device && !pool.from) {
            ids.push_back(key.second);
        }
    }
    return ids;
}

void Pools::visit_foreign(DeviceIndex device, const See &see)
{
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto show = [&](const Block &block, bool is_live, bool is_awaited) {
        if (block.device == device) {
            see(block.ptr, block.bytes, block.stream, block.pool.second, is_live, is_awaited);
        }
    };
    for (const auto &[ptr, block] : live_) {
        show(block, true, false);
    }
    for (const auto &[key, pool] : pools_) {
        for (const Block &block : pool.idle) {
            show(block, false, false);
        }
        for (const Block &block : pool.pending) {
            show(block, false, true);
        }
    }
    for (const Block &block : kept_) {
        show(block, false, true);
    }
}

/* ---- what PyTorch calls ---- */

void Allocator::beginAllocateToPool(DeviceIndex device, MempoolId id,
                                    std::function<bool(cudaStream_t)> filter)
{
    pools_.begin(device, id, std::move(filter));
}

void Allocator::endAllocateToPool(DeviceIndex device, MempoolId id)
{
    pools_.end(device, id);
}

void Allocator::releasePool(DeviceIndex device, MempoolId id)
{
    pools_.release(device, id);
}

int Allocator::getPoolUseCount(DeviceIndex device, MempoolId id)
{
    return pools_.use_count(device, id);
}

void Allocator::ensureExistsAndIncrefPool(DeviceIndex device, MempoolId id)
{
    pools_.use(device, id, nullptr);
}

void Allocator::createOrIncrefPool(DeviceIndex device, MempoolId id, CA::CUDAAllocator *from)
{
    pools_.use(device, id, borrow(from));
}

void Allocator::createOrIncrefPool(DeviceIndex device, MempoolId id,
                                   std::shared_ptr<CA::CUDAAllocator> from)
{
    pools_.use(device, id, std::move(from));
}

void Allocator::setUseOnOOM(DeviceIndex device, MempoolId id)
{
    pools_.set_lending(device, id, true);
}

void Allocator::setUseOnOOM(DeviceIndex device, MempoolId id, bool use_on_oom)
{
    pools_.set_lending(device, id, use_on_oom);
}

/* PyTorch asks for it so that tensors do not fragment a pool, which is no danger here. */
void Allocator::setNoSplit(DeviceIndex /*device*/, MempoolId /*id*/)
{
}

} // namespace pleat_torch
