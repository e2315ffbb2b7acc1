/* foreign.hpp - the memory of a private pool with an allocator of its own
 * (torch.cuda.MemPool(allocator), for memory that NCCL allocates), cached as PyTorch does.
 *
 * The pool's allocator gives whole segments, often of 2 MiB at least. No segment can be mapped
 * elsewhere, so pleat's own method does not work here. Instead small tensors share segments, and a
 * request gets the best fit of its stream's free memory. The rest of the fit is cut off, and free
 * neighbours are joined.
 *
 * A freed block waits for recorded uses on other streams. The free records an event on each such
 * stream at once, since the stream may be gone later. Only the oldest event of a stream is looked
 * at: so a request looks at one event a stream, even with a hundred thousand awaited blocks.
 *
 * The owner guards a Foreign, and calls the allocator and its trackers.
 * Source of the algorithm and its sizes: c10/cuda/CUDACachingAllocator.cpp. */
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

#include "pleat_torch.h"
#include "sums.hpp"
#include "versions.hpp"

namespace pleat_torch
{

using Source = std::shared_ptr<CA::CUDAAllocator>;
using DeviceStream = std::pair<DeviceIndex, cudaStream_t>;

/* While a Relaxed lives, this thread may make calls that would break other threads' captures in
 * global mode. */
class Relaxed
{
public:
    Relaxed();
    ~Relaxed();
    Relaxed(const Relaxed &) = delete;
    Relaxed &operator=(const Relaxed &) = delete;

private:
    cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

enum class StreamState { open, captured, gone };
StreamState state_of(cudaStream_t stream); /* breaks no capture */

class Foreign
{
public:
    struct Segment {
        void *ptr;
        size_t bytes;
        cudaStream_t stream;
        bool is_small;
    };
    /* Sizes for a request: of its block, and of the block's segment. */
    struct Sizes {
        size_t block;
        size_t segment;
        bool is_small;
    };

    /* All sums are counted in `sums`, which outlives the object. */
    Foreign(Source from, DeviceIndex device, MempoolId pool, pleat_stats &sums)
        : from(std::move(from)), device(device), pool(pool), sums_(sums)
    {
    }
    Foreign(const Foreign &) = delete;
    Foreign &operator=(const Foreign &) = delete;

    const Source from;
    const DeviceIndex device;
    const MempoolId pool;
    bool is_whole = false;    /* no_split: each block is a segment of its own */
    size_t n_busy = 0;        /* requests that may still add a segment */
    bool was_emptied = false; /* since its pool ended */
    PoolSums reserved{};      /* bytes of segments */

    Sizes sizes_of(size_t bytes) const;
    /* A block of free memory, or NULL. */
    void *take(size_t bytes, cudaStream_t stream);
    /* Add a segment, all of it free. Throws std::bad_alloc: as before. */
    void add(const Segment &segment);
    /* The functions below take live blocks, by address. */
    void record(void *ptr, DeviceStream stream);
    pleat_piece look(void *ptr) const;
    Segment segment_of(void *ptr) const;
    void give(void *ptr);
    /* Make awaited blocks free whose uses on other streams are over. */
    void settle();
    /* Remove all segments without a block in use. */
    std::vector<Segment> take_idle();
    bool is_empty() const
    {
        return segments_.empty();
    }
    std::vector<DeviceStream> awaited() const;
    void visit(const std::function<void(const pleat_piece &)> &see) const;

private:
    struct Block {
        Segment *segment;
        size_t bytes;
        size_t requested;               /* while it is not free */
        pleat_piece_use use;
        size_t n_awaited;               /* streams */
        std::vector<DeviceStream> uses; /* live: streams beside its segment's */
    };
    using Blocks = std::map<uintptr_t, Block>;
    using Free = std::tuple<bool, cudaStream_t, size_t, uintptr_t>; /* is_small, bytes, address */
    /* Blocks that wait for a stream. While a stream is being captured, no event is recorded: the
     * event would belong to the graph. */
    struct Wait {
        std::vector<uintptr_t> unmarked; /* without an event behind them yet */
        std::deque<std::pair<cudaEvent_t, std::vector<uintptr_t>>> marked; /* oldest first */
    };

    static bool mark(DeviceStream stream, Wait &wait);
    void pass(Wait &wait);
    void end_use(uintptr_t at);
    bool is_whole_segment(const Blocks::value_type &entry) const;
    void set_free(Blocks::iterator at);
    void unset_free(Blocks::iterator at);
    void join(Blocks::iterator at);
    void cut(Blocks::iterator at, size_t bytes);
    pleat_piece piece_of(const Blocks::value_type &entry) const;
    void count(const Block &block, bool is_more);

    pleat_stats &sums_;
    std::map<uintptr_t, Segment> segments_;
    Blocks blocks_; /* of all segments, by address, without gaps in a segment */
    std::set<Free> free_;
    std::map<DeviceStream, Wait> waits_; /* none that awaits nothing */
};

} // namespace pleat_torch
