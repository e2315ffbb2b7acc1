/* snapshot.cpp - PyTorch's snapshot of all memory, with the recorder's contexts, and the calls that
 * switch histories. */
#include "allocator.hpp"

namespace pleat_torch
{

namespace
{

struct Look {
    MempoolId pool; /* {0, 0} = all */
    std::vector<CA::SegmentInfo> segments;
    std::vector<pleat_devptr> bases; /* of all blocks, in order */
    uint64_t active_bytes = 0;
};

template <typename Segment>
auto set_pool(Segment &segment, MempoolId id, int) -> decltype(segment.owner_private_pool_id, void())
{
    segment.owner_private_pool_id = id;
}
template <typename Segment>
void set_pool(Segment & /*segment*/, MempoolId /*id*/, long)
{
}

void add_segment(Look &look, const pleat_piece &piece)
{
    CA::SegmentInfo segment;
    segment.device = static_cast<DeviceIndex>(piece.device);
    segment.address = piece.base;
    segment.stream = static_cast<decltype(segment.stream)>(piece.stream);
    segment.is_large = !piece.is_small;
    segment.is_expandable = piece.is_expandable;
    set_pool(segment, { piece.pool.first, piece.pool.second }, 0);
    look.segments.push_back(std::move(segment));
}

void add_piece(Look &look, const pleat_piece *piece)
{
    const MempoolId pool{ piece->pool.first, piece->pool.second };
    if (look.pool != MempoolId{ 0, 0 } && look.pool != pool) {
        return;
    }
    if (piece->is_first || look.segments.empty()) {
        add_segment(look, *piece);
    }
    CA::SegmentInfo &segment = look.segments.back();
    CA::BlockInfo block;
    block.size = piece->bytes;
    block.requested_size = piece->requested_bytes;
    block.allocated = piece->use == PLEAT_PIECE_LIVE;
    block.active = piece->use != PLEAT_PIECE_FREE;
    segment.total_size += block.size;
    segment.allocated_size += block.allocated ? block.size : 0;
    segment.active_size += block.active ? block.size : 0;
    segment.requested_size += block.requested_size;
    look.active_bytes += block.active ? block.size : 0;
    segment.blocks.push_back(std::move(block));
    look.bases.push_back(piece->base);
}

void see_piece(const pleat_piece *piece, void *context)
{
    auto &look = *static_cast<Guarded<Look> *>(context);
    look.run([&] { add_piece(look.value, piece); });
}

template <typename Entries>
void set_times(Entries &entries, c10::ApproximateClockToUnixTimeConverter &clock)
{
    const auto to_ns = clock.makeConverter();
    for (auto &entry : entries) {
        entry.time_.t_ = to_ns(entry.time_.approx_t_) / 1000;
    }
}

void add_newer_settings([[maybe_unused]] CA::AllocatorConfigInfo &info)
{
#if PLEAT_TORCH_HAS_EARLY_REFUSAL
    using Config = c10::CachingAllocator::AcceleratorAllocatorConfig;
    info.graph_capture_record_stream_reuse =
        CA::CUDAAllocatorConfig::graph_capture_record_stream_reuse();
    info.max_round_threshold = Config::pinned_max_round_threshold();
    info.max_cached_size = Config::pinned_max_cached_size();
#endif
}

/* torch's settings as they are, though pleat heeds few of them; the text is pleat's own. */
CA::AllocatorConfigInfo settings()
{
    using Config = CA::CUDAAllocatorConfig;
    CA::AllocatorConfigInfo info{};
    size_t needed = 0;
    (void)!pleat_instance_conf(instance(), nullptr, 0, &needed);
    std::string conf(needed > 0 ? needed : 1, '\0');
    (void)!pleat_instance_conf(instance(), conf.data(), conf.size(), &needed);
    conf.resize(conf.size() - 1); /* the end mark */
    info.garbage_collection_threshold = Config::garbage_collection_threshold();
    info.max_split_size = Config::max_split_size();
    info.pinned_num_register_threads = Config::pinned_num_register_threads();
    info.expandable_segments = Config::expandable_segments();
    info.release_lock_on_malloc = Config::release_lock_on_cudamalloc();
    info.pinned_use_host_register = Config::pinned_use_cuda_host_register();
    info.last_allocator_settings = conf;
    info.roundup_power2_divisions = Config::roundup_power2_divisions();
    add_newer_settings(info);
    return info;
}

int action_of(const std::string &name)
{
    static const char *const names[] = {
        "alloc",        "free_requested", "free_completed", "segment_alloc", "segment_free",
        "segment_map",  "segment_unmap",  "snapshot",       "oom",           "annotate",
    };
    for (int i = 0; i < static_cast<int>(std::size(names)); i++) {
        if (name == names[i]) {
            return i;
        }
    }
    TORCH_CHECK(false, "pleat: histories know no action called ", name);
}

} // namespace

void Recorder::add_device(DeviceIndex index, MempoolId pool, bool with_traces,
                          CA::SnapshotInfo &out)
{
    const std::lock_guard<std::mutex> looking(looking_);
    Guarded<Look> looked;
    looked.value.pool = pool;
    check(pleat_visit(instance(), index, see_piece, &looked), "the memory cannot be listed");
    Look look = looked.take();
    const pleat_change change = { PLEAT_CHANGE_SNAPSHOT, index, 0, look.active_bytes, nullptr, {} };
    const std::lock_guard<std::mutex> guard(mutex_);
    Device &device = device_at(index);
    size_t n = 0;
    for (CA::SegmentInfo &segment : look.segments) {
        const auto made = device.seen_segments.find(segment.address);
        if (made != device.seen_segments.end()) {
            segment.context_when_allocated = made->second;
        }
        for (CA::BlockInfo &block : segment.blocks) {
            const auto born = device.seen_blocks.find(look.bases[n++]);
            if (block.active && born != device.seen_blocks.end()) {
                block.context_when_allocated = born->second;
            }
        }
        out.segments.push_back(std::move(segment));
    }
    if (is_recording_) { /* for the next snapshot, as in PyTorch */
        tell(device, change, nullptr);
    }
    set_times(device.seen_entries, clock_);
    if (!with_traces) {
        device.seen_entries.clear();
    }
    out.device_traces.push_back(std::move(device.seen_entries));
    device.seen_entries.clear();
    device.seen_blocks.clear();
    device.seen_segments.clear();
}

void Recorder::add_annotations(CA::SnapshotInfo &out)
{
    const std::lock_guard<std::mutex> guard(mutex_);
    out.external_annotations = annotations_;
    set_times(out.external_annotations, clock_);
}

/* ---- PyTorch's calls ---- */

void Allocator::add_foreign(DeviceIndex device, MempoolId pool, CA::SnapshotInfo &out)
{
    Look look;
    look.pool = pool;
    pools_.visit_foreign(device, [&](const pleat_piece &piece) { add_piece(look, &piece); });
    size_t n = 0;
    for (CA::SegmentInfo &segment : look.segments) {
        for (CA::BlockInfo &block : segment.blocks) {
            const pleat_devptr base = look.bases[n++];
            if (block.active) {
                block.context_when_allocated = recorder_.born(device, base);
            }
        }
        out.segments.push_back(std::move(segment));
    }
}

CA::SnapshotInfo Allocator::snapshot(MempoolId pool, bool with_traces)
{
    CA::SnapshotInfo info;
    for (int i = 0; i < n_devices_; i++) {
        const auto device = static_cast<DeviceIndex>(i);
        recorder_.add_device(device, pool, with_traces, info);
        add_foreign(device, pool, info);
    }
    recorder_.add_annotations(info);
    info.config_metadata = settings();
    return info;
}

CA::SnapshotInfo Allocator::snapshot(MempoolId pool)
{
    return snapshot(pool, true);
}

CA::SnapshotInfo Allocator::snapshot()
{
    return snapshot(active_pool(), true);
}

bool Allocator::isHistoryEnabled()
{
    return recorder_.is_recording();
}

void Allocator::recordHistory(bool is_on, CA::CreateContextFn gather, size_t most,
                              CA::RecordContext when, bool is_cleared,
                              const std::vector<std::string> &skipped)
{
    Recorder::Settings settings;
    settings.gather = gather;
    settings.most = most;
    settings.when = when;
    for (const std::string &name : skipped) {
        settings.skipped.insert(action_of(name));
    }
    recorder_.record(is_on, std::move(settings), is_cleared);
}

void Allocator::recordHistory(bool is_on, CA::CreateContextFn gather, size_t most,
                              CA::RecordContext when, bool is_cleared)
{
    recordHistory(is_on, gather, most, when, is_cleared, {});
}

void Allocator::recordHistory(bool is_on, CA::CreateContextFn gather, size_t most,
                              CA::RecordContext when)
{
    recordHistory(is_on, gather, most, when, false, {});
}

void Allocator::recordAnnotation(const std::vector<std::pair<std::string, std::string>> &metadata)
{
    recorder_.annotate(metadata);
}

void Allocator::pushCompileContext(std::string &text)
{
    recorder_.push_compile_context(text);
}

void Allocator::popCompileContext()
{
    recorder_.pop_compile_context();
}

void Allocator::setUserMetadata(const std::string &text)
{
    DeviceIndex device = 0;
    (void)c10::cuda::GetDevice(&device);
    recorder_.set_metadata(device, text);
}

std::string Allocator::getUserMetadata()
{
    DeviceIndex device = 0;
    (void)c10::cuda::GetDevice(&device);
    return recorder_.metadata(device);
}

bool Allocator::supportsUserMetadata()
{
    return true;
}

void Allocator::annotateMemory(const void *ptr, const std::string &text)
{
    pleat_block_info info;
    if (!recorder_.is_recording()) {
        return;
    }
    TORCH_CHECK(find_block(ptr, info) && reinterpret_cast<void *>(info.base) == ptr,
                "pleat: no live allocation begins at ", ptr, " to annotate");
    Recorder::Scope scope(recorder_, CA::RecordContext::ALLOC);
    recorder_.annotate_block(info, text);
}

/* NULL: nobody records, or the block is older than the history. */
std::shared_ptr<c10::GatheredContext> Allocator::getContextForPointer(const void *ptr)
{
    pleat_block_info info;
    if (!recorder_.is_recording() || !find_block(ptr, info)) {
        return nullptr;
    }
    return recorder_.born(static_cast<DeviceIndex>(info.device), info.base);
}

void Allocator::attachOutOfMemoryObserver(CA::OutOfMemoryObserver observer)
{
    const std::lock_guard<std::mutex> guard(mutex_);
    observers_.push_back(std::move(observer));
}

void Allocator::attachOomRejectionObserver(RejectionObserver observer)
{
    const std::lock_guard<std::mutex> guard(mutex_);
    refusal_observers_.push_back(std::move(observer));
}

void Allocator::attachAllocatorTraceTracker(CA::AllocatorTraceTracker tracker)
{
    recorder_.track(std::move(tracker));
}

} // namespace pleat_torch
