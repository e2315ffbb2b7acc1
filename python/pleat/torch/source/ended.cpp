/* ended.cpp - pools of pleat that have ended: when PyTorch asks, as many bytes go back as they
 * held. */
#include "allocator.hpp"

namespace pleat_torch
{

namespace
{

/* Bytes resident in a pool of pleat's. */
uint64_t held_by(DeviceIndex device, MempoolId id)
{
    uint64_t bytes = 0;
    check(pleat_pool_held(instance(), device, pool_id(id), &bytes), "the pool cannot be read");
    return bytes;
}

} // namespace

/* Before its last user goes. Graphs' pools end by the thousand, and nobody empties them. */
void Pools::note_end(const Pool &pool, Key key)
{
    constexpr size_t most = 64;
    if (pool.n_users > 1) {
        return;
    }
    ended_.push_back({ key, held_by(key.first, key.second) });
    if (ended_.size() > most) {
        ended_.pop_front();
    }
}

bool Pools::empty_ended(MempoolId id)
{
    std::vector<Ended> found;
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        for (auto at = ended_.begin(); at != ended_.end();) {
            if (at->pool.second == id) {
                found.push_back(*at);
                at = ended_.erase(at);
            } else {
                ++at;
            }
        }
    }
    for (const Ended &one : found) {
        pleat_torch_give_back(one.pool.first, one.bytes);
    }
    return !found.empty();
}

} // namespace pleat_torch
