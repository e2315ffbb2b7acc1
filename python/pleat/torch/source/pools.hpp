/* pools.hpp - which private pools there are for PyTorch: their users, and those whose memory comes
 * from an allocator of their own (torch.cuda.MemPool(allocator), for memory that NCCL allocates).
 *
 * pleat routes requests to pools and keeps their memory. A pool with an allocator of its own is not
 * pleat's: its blocks are kept here, each for requests of its size on its stream, until the last
 * user of the pool is gone. Those that were recorded on other streams pend until these are done;
 * none goes back to its allocator before the device's work is over. Each is a segment with one
 * block for histories, trackers and snapshots. */
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <atomic>
#include <deque>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "pleat_torch.h"
#include "versions.hpp"

namespace pleat_torch
{

using Filter = std::function<bool(cudaStream_t)>;
using Source = std::shared_ptr<CA::CUDAAllocator>;

class Recorder;

class Pools
{
public:
    explicit Pools(Recorder &recorder) : recorder_(recorder)
    {
    }

    void begin(DeviceIndex device, MempoolId id, Filter filter);
    void end(DeviceIndex device, MempoolId id);
    /* Make the pool, or count one more user; `from` may be NULL. */
    void use(DeviceIndex device, MempoolId id, Source from);
    void release(DeviceIndex device, MempoolId id);
    int use_count(DeviceIndex device, MempoolId id);
    void set_lending(DeviceIndex device, MempoolId id, bool lends);

    /* Is anything routed to, or allocated from, an allocator that is not pleat's? */
    bool has_foreign() const
    {
        return n_foreign_.load(std::memory_order_relaxed) > 0;
    }
    /* NULL: the request is pleat's. Throws what the pool's allocator throws. */
    void *take_foreign(size_t bytes, DeviceIndex device, cudaStream_t stream);
    /* False: the block is pleat's. */
    bool give_foreign(void *ptr);
    /* False: the block is pleat's. */
    bool record_foreign(void *ptr, cudaStream_t stream);
    /* Give back what is idle, in one pool or, with {0, 0}, in all. False: it is no foreign pool. */
    bool empty_foreign(MempoolId id);
    bool is_used(MempoolId id); /* on any device */
    /* The pool has ended: give back as much as it held. False: no such pool has ended lately. */
    bool empty_ended(MempoolId id);
    std::vector<MempoolId> of_pleat(DeviceIndex device);
    /* A block of a foreign pool, and whether it is live, and whether others still use it. */
    using See = std::function<void(void *ptr, size_t bytes, cudaStream_t stream, MempoolId pool,
                                   bool is_live, bool is_awaited)>;
    void visit_foreign(DeviceIndex device, const See &see);
    /* From the free memory of a pool that lends it when there is no other (use_on_oom), or NULL. */
    void *take_lent(size_t bytes, DeviceIndex device, cudaStream_t stream);

private:
    using Key = std::pair<DeviceIndex, MempoolId>;
    struct Block {
        void *ptr;
        size_t bytes;
        cudaStream_t stream;
        DeviceIndex device;
        Source from;
        Key pool;
        std::vector<cudaStream_t> uses; /* streams that used it, too, and have no event yet */
        std::vector<cudaEvent_t> events;
    };
    struct Pool {
        int n_users = 0;
        bool lends = false;
        Source from;                /* NULL = pleat */
        std::vector<Block> idle;    /* of `from` */
        std::vector<Block> pending; /* freed, and in use on other streams yet */
    };
    struct Route {
        Key pool;
        Filter filter; /* empty = every stream */
    };
    struct Ended {
        Key pool;
        uint64_t bytes; /* that it held at its end */
    };

    Pool &find(Key key, const char *what);
    static void set_source(Pool &pool, Key key, Source from);
    void note_end(const Pool &pool, Key key);
    void forget(Key key, std::vector<Block> &gone);
    void tell(const Block &block, std::initializer_list<pleat_change_kind> changes);
    static bool is_over(Block &block);
    static void settle(Pool &pool);
    static void take_all(Pool &pool, std::vector<Block> &gone);
    void drop(std::vector<Block> blocks);

    Recorder &recorder_;
    std::atomic<int> n_foreign_{ 0 }; /* routes and live blocks */
    std::mutex mutex_;                /* guards the rest */
    std::map<Key, Pool> pools_;
    std::vector<Route> routes_; /* to foreign pools only, oldest first */
    std::unordered_map<void *, Block> live_;
    std::deque<Ended> ended_; /* pools of pleat's, oldest first; nobody need ask for them */
    std::vector<Block> kept_; /* of pools that are gone: a capture forbade to wait for their work */
};

} // namespace pleat_torch
