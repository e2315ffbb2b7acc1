/* foreign.cpp - see foreign.hpp. CUDA is asked about streams and events only. */
#include "foreign.hpp"

#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>

#include <algorithm>

namespace pleat_torch
{

namespace
{

constexpr size_t quantum = 512;
constexpr size_t mib = size_t{ 1 } << 20;
constexpr size_t most_small = mib;      /* such requests get blocks of small segments */
constexpr size_t small_segment = 2 * mib;
constexpr size_t large_segment = 20 * mib; /* for requests below least_large */
constexpr size_t least_large = 10 * mib;

size_t round_up(size_t bytes, size_t step)
{
    return (bytes + step - 1) / step * step;
}

uintptr_t address(void *ptr)
{
    return reinterpret_cast<uintptr_t>(ptr);
}

} // namespace

Relaxed::Relaxed()
{
    (void)cudaThreadExchangeStreamCaptureMode(&mode_);
}

Relaxed::~Relaxed()
{
    (void)cudaThreadExchangeStreamCaptureMode(&mode_);
    (void)cudaGetLastError();
}

Foreign::Sizes Foreign::sizes_of(size_t bytes) const
{
    const size_t rounded = round_up(std::max<size_t>(bytes, 1), quantum);
    const bool is_small = rounded <= most_small;
    if (is_whole) {
        return { rounded, rounded, is_small };
    }
    const size_t segment = is_small                ? small_segment
                           : rounded < least_large ? large_segment
                                                   : round_up(rounded, small_segment);
    return { rounded, segment, is_small };
}

/* ---- blocks ---- */

bool Foreign::is_whole_segment(const Blocks::value_type &entry) const
{
    return entry.second.bytes == entry.second.segment->bytes;
}

void Foreign::set_free(Blocks::iterator at)
{
    Block &block = at->second;
    block.use = PLEAT_PIECE_FREE;
    free_.insert({ block.segment->is_small, block.segment->stream, block.bytes, at->first });
    if (!is_whole_segment(*at)) {
        count_in(sums_.inactive_split, block.segment->is_small, 1);
        count_in(sums_.inactive_split_bytes, block.segment->is_small, block.bytes);
    }
}

void Foreign::unset_free(Blocks::iterator at)
{
    const Block &block = at->second;
    free_.erase({ block.segment->is_small, block.segment->stream, block.bytes, at->first });
    if (!is_whole_segment(*at)) {
        count_out(sums_.inactive_split, block.segment->is_small, 1);
        count_out(sums_.inactive_split_bytes, block.segment->is_small, block.bytes);
    }
}

/* Cut a live block after `bytes`: the rest becomes a free block of its own. */
void Foreign::cut(Blocks::iterator at, size_t bytes)
{
    Block &block = at->second;
    const size_t rest = block.bytes - bytes;
    const auto made = blocks_.insert({ at->first + bytes,
                                       { block.segment, rest, 0, PLEAT_PIECE_FREE, 0, {} } });
    block.bytes = bytes;
    set_free(made.first);
}

/* A block that is not used any more becomes free, together with free neighbours. */
void Foreign::join(Blocks::iterator at)
{
    const auto absorb_next = [this](Blocks::iterator low) {
        const auto next = std::next(low);
        if (next != blocks_.end() && next->second.segment == low->second.segment &&
            next->second.use == PLEAT_PIECE_FREE) {
            unset_free(next);
            low->second.bytes += next->second.bytes;
            blocks_.erase(next);
        }
    };
    at->second.requested = 0;
    absorb_next(at);
    if (at != blocks_.begin()) {
        const auto previous = std::prev(at);
        if (previous->second.segment == at->second.segment &&
            previous->second.use == PLEAT_PIECE_FREE) {
            unset_free(previous);
            previous->second.bytes += at->second.bytes;
            blocks_.erase(at);
            at = previous;
        }
    }
    set_free(at);
}

void Foreign::count(const Block &block, bool is_more)
{
    const auto change = [&](Group &group, uint64_t amount) {
        is_more ? count_in(group, block.segment->is_small, amount)
                : count_out(group, block.segment->is_small, amount);
    };
    change(sums_.active, 1);
    change(sums_.active_bytes, block.bytes);
    change(sums_.requested_bytes, block.requested);
}

void *Foreign::take(size_t bytes, cudaStream_t stream)
{
    const Sizes sizes = sizes_of(bytes);
    const auto best = free_.lower_bound({ sizes.is_small, stream, sizes.block, 0 });
    if (best == free_.end() || std::get<0>(*best) != sizes.is_small ||
        std::get<1>(*best) != stream || (is_whole && std::get<2>(*best) != sizes.block)) {
        return nullptr;
    }
    const auto at = blocks_.find(std::get<3>(*best));
    const size_t rest = at->second.bytes - sizes.block;
    unset_free(at);
    at->second.use = PLEAT_PIECE_LIVE;
    at->second.requested = bytes;
    if (sizes.is_small ? rest >= quantum : rest > most_small) {
        cut(at, sizes.block);
    }
    count(at->second, true);
    count_in(sums_.allocation, sizes.is_small, 1);
    count_in(sums_.allocated_bytes, sizes.is_small, at->second.bytes);
    return reinterpret_cast<void *>(at->first);
}

void Foreign::add(const Segment &segment)
{
    const uintptr_t base = address(segment.ptr);
    const auto made = segments_.insert({ base, segment }).first;
    const auto at =
        blocks_.insert({ base, { &made->second, segment.bytes, 0, PLEAT_PIECE_FREE, 0, {} } });
    set_free(at.first);
    count_in(sums_.segment, segment.is_small, 1);
    count_in(sums_.reserved_bytes, segment.is_small, segment.bytes);
    count_in(reserved, segment.is_small, segment.bytes);
}

/* ---- uses on other streams ---- */

void Foreign::record(void *ptr, DeviceStream stream)
{
    Block &block = blocks_.at(address(ptr));
    auto &uses = block.uses;
    if (stream != DeviceStream(device, block.segment->stream) &&
        std::find(uses.begin(), uses.end(), stream) == uses.end()) {
        uses.push_back(stream);
    }
}

void Foreign::give(void *ptr)
{
    const auto at = blocks_.find(address(ptr));
    Block &block = at->second;
    count_out(sums_.allocation, block.segment->is_small, 1);
    count_out(sums_.allocated_bytes, block.segment->is_small, block.bytes);
    block.use = PLEAT_PIECE_AWAITED;
    block.n_awaited = block.uses.size() + 1;
    if (!block.uses.empty()) {
        const Relaxed relaxed;
        for (const DeviceStream &stream : block.uses) {
            Wait &wait = waits_[stream];
            wait.unmarked.push_back(at->first);
            (void)mark(stream, wait);
        }
        block.uses.clear();
    }
    end_use(at->first);
}

/* One use of an awaited block is over: after its last use the block is free. */
void Foreign::end_use(uintptr_t address)
{
    const auto at = blocks_.find(address);
    if (--at->second.n_awaited == 0) {
        count(at->second, false);
        join(at);
    }
}

StreamState state_of(cudaStream_t stream)
{
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    const cudaError_t error = cudaStreamIsCapturing(stream, &capture);
    (void)cudaGetLastError();
    if (error == cudaErrorStreamCaptureImplicit) { /* the legacy stream, beside a captured one */
        return StreamState::captured;
    }
    return error != cudaSuccess                         ? StreamState::gone
           : capture != cudaStreamCaptureStatusNone ? StreamState::captured
                                                        : StreamState::open;
}

/* Record an event behind the stream's work up to now. False: the stream cannot be asked now. */
bool Foreign::mark(DeviceStream stream, Wait &wait)
{
    const c10::cuda::CUDAGuard on(stream.first);
    cudaEvent_t event = nullptr; /* the stream was gone before the block was freed */
    const StreamState state = state_of(stream.second);
    if (state == StreamState::captured) {
        return false;
    }
    if (state == StreamState::open) {
        if (cudaEventCreateWithFlags(&event, cudaEventDisableTiming) != cudaSuccess) {
            return false;
        }
        if (cudaEventRecord(event, stream.second) != cudaSuccess) {
            (void)cudaEventDestroy(event);
            return false;
        }
    }
    wait.marked.push_back({ event, std::move(wait.unmarked) });
    wait.unmarked.clear();
    return true;
}

/* As many of a stream's events as have passed. */
void Foreign::pass(Wait &wait)
{
    while (!wait.marked.empty()) {
        const cudaEvent_t event = wait.marked.front().first;
        if (event != nullptr && cudaEventQuery(event) == cudaErrorNotReady) {
            return;
        }
        if (event != nullptr) {
            (void)cudaEventDestroy(event);
        }
        for (const uintptr_t address : wait.marked.front().second) {
            end_use(address);
        }
        wait.marked.pop_front();
    }
}

void Foreign::settle()
{
    if (waits_.empty()) {
        return;
    }
    const Relaxed relaxed;
    for (auto at = waits_.begin(); at != waits_.end();) {
        Wait &wait = at->second;
        const bool is_marked = wait.unmarked.empty() || mark(at->first, wait);
        pass(wait);
        at = is_marked && wait.marked.empty() ? waits_.erase(at) : std::next(at);
    }
}

std::vector<DeviceStream> Foreign::awaited() const
{
    std::vector<DeviceStream> streams;
    for (const auto &[stream, wait] : waits_) {
        streams.push_back(stream);
    }
    return streams;
}

/* ---- segments ---- */

Foreign::Segment Foreign::segment_of(void *ptr) const
{
    return *blocks_.at(address(ptr)).segment;
}

std::vector<Foreign::Segment> Foreign::take_idle()
{
    std::vector<Segment> idle;
    for (auto segment = segments_.begin(); segment != segments_.end();) {
        const auto at = blocks_.find(segment->first);
        if (at->second.use != PLEAT_PIECE_FREE || !is_whole_segment(*at)) {
            ++segment;
            continue;
        }
        const bool is_small = segment->second.is_small;
        count_out(sums_.segment, is_small, 1);
        count_out(sums_.reserved_bytes, is_small, segment->second.bytes);
        count_out(reserved, is_small, segment->second.bytes);
        unset_free(at);
        blocks_.erase(at);
        idle.push_back(segment->second);
        segment = segments_.erase(segment);
    }
    return idle;
}

/* ---- being looked at ---- */

pleat_piece Foreign::piece_of(const Blocks::value_type &entry) const
{
    const Block &block = entry.second;
    pleat_piece piece{};
    piece.device = device;
    piece.base = entry.first;
    piece.bytes = block.bytes;
    piece.requested_bytes = block.requested;
    piece.stream = block.segment->stream;
    piece.pool = pool_id(pool);
    piece.use = block.use;
    piece.is_first = entry.first == address(block.segment->ptr);
    piece.is_small = block.segment->is_small;
    return piece;
}

pleat_piece Foreign::look(void *ptr) const
{
    return piece_of(*blocks_.find(address(ptr)));
}

void Foreign::visit(const std::function<void(const pleat_piece &)> &see) const
{
    for (const auto &entry : blocks_) {
        see(piece_of(entry));
    }
}

} // namespace pleat_torch
