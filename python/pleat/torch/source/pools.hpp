/* pools.hpp - PyTorch's private pools: their users, and pools whose memory comes from an allocator
 * of their own (torch.cuda.MemPool(allocator), for memory that NCCL allocates).
 *
 * pleat routes requests to pools and keeps their memory. The exception is a pool with an allocator
 * of its own: the class caches its memory (foreign.hpp) until the last user of the pool is gone.
 * Then the memory goes back, segment by segment. Each segment first waits for its stream's work,
 * and for recorded uses on other streams. A program that replays a graph on another stream keeps
 * the pool until the replay is over. Histories, trackers, snapshots, statistics and the memory
 * fraction count the cached memory. */
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "budget.hpp"
#include "foreign.hpp"
#include "pleat_torch.h"
#include "versions.hpp"

namespace pleat_torch
{

using Filter = std::function<bool(cudaStream_t)>;

class Recorder;

class Pools
{
public:
    Pools(Recorder &recorder, Budget &budget) : recorder_(recorder), budget_(budget)
    {
    }

    void begin(DeviceIndex device, MempoolId id, Filter filter);
    void end(DeviceIndex device, MempoolId id);
    /* Make the pool, or count one more user; `from` may be NULL. */
    void use(DeviceIndex device, MempoolId id, Source from);
    void release(DeviceIndex device, MempoolId id);
    int use_count(DeviceIndex device, MempoolId id);
    /* Release pools held by failed captures: see pools.cpp. False: none. */
    bool release_failed();
    void set_lending(DeviceIndex device, MempoolId id, bool lends);
    void set_whole(DeviceIndex device, MempoolId id);

    /* Is anything routed to, or allocated from, an allocator that is not pleat's? */
    bool has_foreign() const
    {
        return n_foreign_.load(std::memory_order_relaxed) > 0;
    }
    /* NULL: the request is pleat's or, is_short, the pool's allocator has no memory. Throws the
     * allocator's exceptions. */
    void *take_foreign(size_t bytes, DeviceIndex device, cudaStream_t stream, bool &is_short);
    void note_shortage(const pleat_change &change); /* when the request fails in the end */
    /* False: the block is pleat's. */
    bool give_foreign(void *ptr, pleat_piece &given);
    bool look_foreign(void *ptr, pleat_piece &piece);
    bool record_foreign(void *ptr, DeviceStream stream);
    bool base_of_foreign(void *ptr, void *&base, size_t &bytes); /* of its segment */
    /* Give back idle segments of a pool that has ended or, with {0, 0}, of all such pools. False:
     * no such pool. Waits for the streams that used them. */
    bool empty_foreign(MempoolId id);
    bool is_used(MempoolId id); /* on any device */
    /* The pool has ended: give back as much as it held. False: no such pool has ended lately. */
    bool empty_ended(MempoolId id);
    std::vector<MempoolId> of_pleat(DeviceIndex device);
    void visit_foreign(DeviceIndex device, const std::function<void(const pleat_piece &)> &see);
    pleat_stats sums_of_foreign(DeviceIndex device);
    std::map<MempoolId, PoolSums> reserved_by_foreign(DeviceIndex device);
    void reset_foreign_totals(DeviceIndex device);
    void reset_foreign_peaks(DeviceIndex device);
    /* A block of a pool that lends its free memory when all else is used (use_on_oom), or NULL. */
    void *take_lent(size_t bytes, DeviceIndex device, cudaStream_t stream);

private:
    using Key = std::pair<DeviceIndex, MempoolId>;
    using Cache = std::shared_ptr<Foreign>;
    struct Pool {
        int n_users = 0;
        uint64_t n_ended = 0; /* routes with a filter */
        bool lends = false;
        Cache foreign; /* NULL = the pool is pleat's */
    };
    /* A segment on its way back. */
    struct Gone {
        Source from; /* NULL: the allocator may be gone, so cudaFree frees */
        Foreign::Segment segment;
        DeviceIndex device;
        MempoolId pool;
    };
    struct Route {
        Key pool;
        Filter filter; /* empty = every stream */
        bool is_foreign;
        std::thread::id owner; /* the thread that began the route */
        int n_running = 0;     /* threads that may be inside the filter */
    };
    struct Ended {
        Key pool;
        uint64_t bytes; /* held at its end */
    };

    Pool &find(Key key, const char *what);
    void set_source(Pool &pool, Key key, Source from);
    void note_end(const Pool &pool, Key key);
    bool has_failed(Key key, const Pool &pool);
    Cache make_cache(Key key, Source from);
    std::shared_ptr<Route> find_route(DeviceIndex device, cudaStream_t stream);
    Cache route_foreign(DeviceIndex device, cudaStream_t stream);
    void leave(const Cache &cache);
    void *take_from(const Cache &cache, size_t bytes, cudaStream_t stream);
    void *hand_out(const Cache &cache, size_t bytes, cudaStream_t stream);
    Foreign::Segment grow(const Foreign &cache, size_t bytes, cudaStream_t stream);
    void *lend_foreign(size_t bytes, DeviceIndex device, cudaStream_t stream);
    std::vector<Cache> caches_of(DeviceIndex device) const;
    std::vector<Gone> take_ended(const std::vector<Cache> &ended);
    void tell(const pleat_piece &piece, pleat_change_kind kind);
    void tell(const Gone &gone, pleat_change_kind kind);
    void drop(const Gone &gone);
    void drop(std::vector<Gone> gone);

    Recorder &recorder_;
    Budget &budget_;
    std::atomic<int> n_foreign_{ 0 }; /* routes and live blocks */
    std::mutex mutex_;                /* guards the rest */
    std::map<Key, Pool> pools_;
    std::vector<std::shared_ptr<Route>> routes_; /* oldest first */
    std::condition_variable left_;               /* signals that a filter has ended */
    std::map<Key, int> failed_; /* captures for which a pool was released */
    std::unordered_map<void *, Cache> live_;
    std::vector<Cache> ended_caches_; /* of ended pools, still with memory */
    std::map<DeviceIndex, pleat_stats> sums_;
    std::deque<Ended> ended_; /* pools of pleat, oldest first; nobody need ask for them */
    std::vector<Gone> kept_;  /* a capture forbade the wait for their work */
};

} // namespace pleat_torch
