/* pools.cpp - users and routes of pools (pools.hpp), and PyTorch's calls about pools.
 *
 * The mutex is not held while foreign code runs: filters, and allocators of pools. */
#include "allocator.hpp"

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
thread_local int n_filters_inside; /* of find_route, by this thread */

bool accept_borrower(void * /*stream*/, void * /*context*/)
{
    return is_borrowing;
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
    const Key key{ device, id };
    (void)instance(); /* throws in a forked child */
    const std::lock_guard<std::mutex> guard(mutex_);
    Pool &pool = pools_[key];
    if (pool.n_users == 0 && from) {
        pool.foreign = make_cache(key, std::move(from));
    }
    if (!pool.foreign) {
        check(pleat_pool_hold(instance(), device, pool_id(id)),
              "the private pool could not be made");
    }
    pool.n_users++;
}

/* A pool had users before its allocator was known: pleat gives the pool up. */
void Pools::set_source(Pool &pool, Key key, Source from)
{
    for (int n = pool.n_users; n > 0; n--) {
        pleat_torch_release_pool(key.first, pool_id(key.second));
    }
    pool.foreign = make_cache(key, std::move(from));
}

void Pools::begin(DeviceIndex device, MempoolId id, Filter filter)
{
    const Key key{ device, id };
    (void)instance(); /* throws in a forked child */
    (void)release_failed();
    const std::lock_guard<std::mutex> guard(mutex_);
    Pool &pool = pools_[key];
    CA::CUDAAllocator *own = allocator_of_active_pool(id);
    if (own && !pool.foreign) {
        set_source(pool, key, borrow(own));
    }
    if (pool.foreign) {
        n_foreign_++;
    } else if (filter) {
        begin_at_pleat(device, id, call_filter, forget_filter, new Filter(filter));
    } else {
        begin_at_pleat(device, id, nullptr, nullptr, nullptr);
    }
    routes_.push_back(std::make_shared<Route>(
        Route{ key, std::move(filter), pool.foreign != nullptr, std::this_thread::get_id() }));
    pool.n_users++;
}

void Pools::end(DeviceIndex device, MempoolId id)
{
    const Key key{ device, id };
    if (is_forked_child()) {
        return;
    }
    std::unique_lock<std::mutex> guard(mutex_);
    const auto is_its = [&](const auto &route) { return route->pool == key; };
    const auto is_own = [&](const auto &route) {
        return route->pool == key && route->owner == std::this_thread::get_id();
    };
    auto at = std::find_if(routes_.rbegin(), routes_.rend(), is_own);
    if (at == routes_.rend() && failed_.count(key) > 0) {
        return;
    }
    at = at != routes_.rend() ? at : std::find_if(routes_.rbegin(), routes_.rend(), is_its);
    if (at == routes_.rend()) {
        guard.unlock();
        pleat_torch_end_pool(device, pool_id(id));
        return;
    }
    const std::shared_ptr<Route> route = *at;
    routes_.erase(std::next(at).base());
    pools_[key].n_ended += route->filter ? 1 : 0;
    n_foreign_ -= route->is_foreign;
    /* After the return the program may free the filter's data. Within a filter nobody can wait. */
    left_.wait(guard, [&] { return route->n_running == 0 || n_filters_inside > 0; });
    guard.unlock();
    if (!route->is_foreign) {
        pleat_torch_end_pool(device, pool_id(id));
    }
}

void Pools::release(DeviceIndex device, MempoolId id)
{
    const Key key{ device, id };
    if (is_forked_child()) { /* the pool is its parent's, whose threads may have held the mutex */
        return;
    }
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto failed = failed_.find(key);
    if (failed != failed_.end()) {
        if (--failed->second == 0) {
            failed_.erase(failed);
        }
        return;
    }
    Pool &pool = find(key, "nothing to release");
    if (!pool.foreign) {
        note_end(pool, key);
        pleat_torch_release_pool(device, pool_id(id));
    }
    if (--pool.n_users == 0) {
        if (pool.foreign) {
            ended_caches_.push_back(pool.foreign);
        }
        pools_.erase(key);
    }
}

/* PyTorch begins a route for each capture, and ends the route after a good capture. The graph then
 * is a user of the pool until it is reset. After a failed capture PyTorch does neither, so route
 * and pool would stay for ever. A pool counts as failed if all its users are routes that have not
 * ended, if pleat saw a capture for each route, and if the driver says that no capture left a
 * graph. Graphs that allocated nothing count as other users, or as routes without a capture. */
bool Pools::has_failed(Key key, const Pool &pool)
{
    const auto n = static_cast<uint64_t>(
        std::count_if(routes_.begin(), routes_.end(), [&](const auto &route) {
            return route->pool == key && route->filter;
        }));
    uint64_t n_gone = 0;
    return !pool.foreign && n > 0 && static_cast<uint64_t>(pool.n_users) == n &&
           pleat_pool_gone(instance(), key.first, pool_id(key.second), &n_gone) == PLEAT_OK &&
           n_gone >= pool.n_ended + n;
}

/* A later version of PyTorch may end and release such pools itself: failed_ counts the calls to
 * ignore then. */
bool Pools::release_failed()
{
    const std::lock_guard<std::mutex> guard(mutex_);
    std::vector<Key> found;
    for (const auto &route : routes_) {
        const auto pool = pools_.find(route->pool);
        if (pool != pools_.end() && has_failed(pool->first, pool->second) &&
            std::find(found.begin(), found.end(), route->pool) == found.end()) {
            found.push_back(route->pool);
        }
    }
    for (const Key &key : found) {
        Pool &pool = pools_[key];
        for (; pool.n_users > 0; pool.n_users--) {
            pleat_torch_end_pool(key.first, pool_id(key.second));
            note_end(pool, key);
            pleat_torch_release_pool(key.first, pool_id(key.second));
            failed_[key]++;
        }
        const auto is_its = [&](const auto &route) { return route->pool == key; };
        routes_.erase(std::remove_if(routes_.begin(), routes_.end(), is_its), routes_.end());
        pools_.erase(key);
    }
    return !found.empty();
}

/* The newest route that accepts the stream, or NULL. Filters run without the mutex. */
std::shared_ptr<Pools::Route> Pools::find_route(DeviceIndex device, cudaStream_t stream)
{
    std::vector<std::shared_ptr<Route>> routes;
    std::shared_ptr<Route> found;
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        std::copy_if(routes_.rbegin(), routes_.rend(), std::back_inserter(routes),
                     [&](const auto &route) { return route->pool.first == device; });
        for (const auto &route : routes) {
            route->n_running++;
        }
    }
    n_filters_inside++;
    try {
        for (size_t i = 0; i < routes.size() && !found; i++) {
            found = !routes[i]->filter || routes[i]->filter(stream) ? routes[i] : nullptr;
        }
    } catch (...) { /* accepts nothing, as in call_filter */
    }
    n_filters_inside--;
    const std::lock_guard<std::mutex> guard(mutex_);
    for (const auto &route : routes) {
        route->n_running--;
    }
    left_.notify_all();
    return found;
}

int Pools::use_count(DeviceIndex device, MempoolId id)
{
    if (is_forked_child()) {
        return 1; /* older versions insist on it when a pool goes */
    }
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto at = pools_.find({ device, id });
    return at == pools_.end() ? 0 : at->second.n_users;
}

/* ---- memory that pools lend ---- */

void Pools::set_lending(DeviceIndex device, MempoolId id, bool lends)
{
    if (is_forked_child()) {
        return;
    }
    const std::lock_guard<std::mutex> guard(mutex_);
    find({ device, id }, "use_on_oom cannot be set").lends = lends;
}

/* PyTorch asks for whole segments so that tensors do not fragment a pool: no danger in pleat's. */
void Pools::set_whole(DeviceIndex device, MempoolId id)
{
    if (is_forked_child()) {
        return;
    }
    const std::lock_guard<std::mutex> guard(mutex_);
    const Pool &pool = find({ device, id }, "no_split cannot be set");
    if (pool.foreign) {
        pool.foreign->is_whole = true;
    }
}

void *Pools::take_lent(size_t bytes, DeviceIndex device, cudaStream_t stream)
{
    std::vector<MempoolId> lenders;
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        for (const auto &[key, pool] : pools_) {
            if (pool.lends && !pool.foreign && key.first == device) {
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
    return ptr != nullptr ? ptr : lend_foreign(bytes, device, stream);
}

/* ---- being looked at ---- */

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
        if (key.first == device && !pool.foreign) {
            ids.push_back(key.second);
        }
    }
    return ids;
}

/* ---- PyTorch's calls ---- */

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

void Allocator::setNoSplit(DeviceIndex device, MempoolId id)
{
    pools_.set_whole(device, id);
}

} // namespace pleat_torch
