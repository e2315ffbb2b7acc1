/* recorder.cpp - see recorder.hpp.
 *
 * `note` runs under pleat's lock: it calls neither pleat nor CUDA. */
#include "recorder.hpp"

#include "allocator.hpp"

#include <c10/util/ApproximateClock.h>

#include <type_traits>

namespace pleat_torch
{

namespace
{

thread_local Context *current; /* of the innermost scope */
thread_local const char *current_tag; /* of the innermost scope; or NULL */
thread_local std::vector<std::string> compile_contexts;

template <typename Entry>
auto set_tag(Entry &entry, int) -> decltype(entry.internal_metadata_, void())
{
    if (current_tag != nullptr) {
        entry.internal_metadata_ = current_tag;
    }
}
template <typename Entry>
void set_tag(Entry & /*entry*/, long)
{
}

/* Entries have had more and more to tell. */
template <typename Entry = CA::TraceEntry>
Entry make_entry(const pleat_change &change, Context context, const std::string &metadata)
{
    const auto action = static_cast<typename Entry::Action>(change.kind);
    const auto device = static_cast<DeviceIndex>(change.device);
    auto *stream = static_cast<cudaStream_t>(change.stream);
    const MempoolId pool{ change.pool.first, change.pool.second };
    const auto now = c10::getApproximateTime();
    const std::string compiled = compile_contexts.empty() ? "N/A" : compile_contexts.back();
    if constexpr (std::is_constructible_v<Entry, typename Entry::Action, DeviceIndex, size_t,
                                          size_t, cudaStream_t, MempoolId, decltype(now), Context,
                                          std::string, std::string>) {
        return Entry(action, device, change.base, change.bytes, stream, pool, now, context,
                     compiled, metadata);
    } else if constexpr (std::is_constructible_v<Entry, typename Entry::Action, DeviceIndex,
                                                 size_t, size_t, cudaStream_t, MempoolId,
                                                 decltype(now), Context, std::string>) {
        return Entry(action, device, change.base, change.bytes, stream, pool, now, context,
                     compiled);
    } else if constexpr (std::is_constructible_v<Entry, typename Entry::Action, DeviceIndex,
                                                 size_t, size_t, cudaStream_t, MempoolId,
                                                 decltype(now), Context>) {
        return Entry(action, device, change.base, change.bytes, stream, pool, now, context);
    } else {
        return Entry(action, device, change.base, change.bytes, stream, now, context);
    }
}

/* Metadata were a device's, for all threads, until they became a thread's, for all devices. */
#if PLEAT_TORCH_HAS_BLOCK_NOTES
thread_local std::string thread_metadata;
std::string &metadata_of(std::string &)
{
    return thread_metadata;
}
#else
std::string &metadata_of(std::string &of_device)
{
    return of_device;
}
#endif

} // namespace

/* ---- contexts ---- */

Recorder::Scope::Scope(Recorder &recorder, CA::RecordContext level, const char *tag)
    : before_(current), tag_before_(current_tag)
{
    const CA::CreateContextFn gather = recorder.gather_.load(std::memory_order_acquire);
    if (gather != nullptr && recorder.level_.load() >= static_cast<int>(level)) {
        context_ = gather();
    }
    current = &context_;
    current_tag = tag;
}

Recorder::Scope::~Scope()
{
    current = before_;
    current_tag = tag_before_;
}

/* Stores the context of a live block or a segment, and returns the entry's context. */
Context Recorder::context_of(Device &device, const pleat_change &change)
{
    Context now = current != nullptr ? *current : nullptr;
    const bool has_entries = level_ >= static_cast<int>(CA::RecordContext::ALLOC);
    switch (change.kind) {
    case PLEAT_CHANGE_ALLOC:
        device.blocks.erase(change.base);
        if (now) {
            device.blocks[change.base] = now;
        }
        return has_entries ? now : nullptr;
    case PLEAT_CHANGE_FREE_REQUESTED:
    case PLEAT_CHANGE_FREE_COMPLETED: {
        const auto at = device.blocks.find(change.base);
        Context born = at != device.blocks.end() ? at->second : nullptr;
        if (change.kind == PLEAT_CHANGE_FREE_COMPLETED && at != device.blocks.end()) {
            device.blocks.erase(at);
        }
        if (level_ >= static_cast<int>(CA::RecordContext::ALL)) {
            return now;
        }
        return has_entries ? born : nullptr;
    }
    case PLEAT_CHANGE_SEGMENT_ALLOC:
    case PLEAT_CHANGE_SEGMENT_MAP:
        if (now && has_entries) {
            device.segments[change.base] = now;
        }
        return has_entries ? now : nullptr;
    case PLEAT_CHANGE_SEGMENT_FREE:
    case PLEAT_CHANGE_SEGMENT_UNMAP:
        device.segments.erase(change.base);
        return has_entries ? now : nullptr;
    default:
        return has_entries ? now : nullptr;
    }
}

/* ---- being told ---- */

Recorder::Device &Recorder::device_at(int device)
{
    while (devices_.size() <= static_cast<size_t>(device)) {
        devices_.push_back(std::make_unique<Device>());
    }
    return *devices_[static_cast<size_t>(device)];
}

void Recorder::tell(Device &device, const pleat_change &change, Context context)
{
    CA::TraceEntry entry = make_entry(change, std::move(context), metadata_of(device.metadata));
    set_tag(entry, 0);
    tell(device, std::move(entry));
}

void Recorder::tell(Device &device, CA::TraceEntry entry)
{
    for (const auto &tracker : trackers_) {
        tracker(entry);
    }
    if (!is_recording_ || settings_.most == 0 ||
        settings_.skipped.count(static_cast<int>(entry.action_)) > 0) {
        return;
    }
    if (device.ring.size() < settings_.most) {
        device.ring.push_back(std::move(entry));
    } else {
        device.ring[device.next] = std::move(entry);
        device.next = (device.next + 1) % device.ring.size();
    }
}

void Recorder::keep_seen(Device &device)
{
    const auto first = device.ring.begin() + static_cast<ptrdiff_t>(device.next);
    device.seen_entries.assign(first, device.ring.end());
    device.seen_entries.insert(device.seen_entries.end(), device.ring.begin(), first);
    device.seen_blocks = device.blocks;
    device.seen_segments = device.segments;
}

void Recorder::note(const pleat_change &change)
{
    const std::lock_guard<std::mutex> guard(mutex_);
    Device &device = device_at(change.device);
    if (change.kind == PLEAT_CHANGE_SNAPSHOT) {
        keep_seen(device);
    } else {
        tell(device, change, context_of(device, change));
    }
}

/* No exception passes through C; without host memory an entry is missing. */
void Recorder::see(const pleat_change *change, void *context)
{
    try {
        static_cast<Recorder *>(context)->note(*change);
    } catch (...) {
    }
}

/* ---- switching ---- */

/* Watches while somebody records or tracks. Takes pleat's lock, so the caller must not hold
 * mutex_. */
void Recorder::listen()
{
    const std::lock_guard<std::mutex> listening(listening_);
    bool wanted;
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        wanted = is_recording_ || !trackers_.empty();
    }
    if (wanted == is_on_ || !is_started_) {
        return;
    }
    check(pleat_watch(instance(), wanted ? &Recorder::see : nullptr, this),
          "changes cannot be watched");
    is_on_ = wanted;
    if (!wanted) { /* frees are not told any more, so contexts would go stale */
        const std::lock_guard<std::mutex> guard(mutex_);
        for (auto &device : devices_) {
            device->blocks.clear();
            device->segments.clear();
        }
    }
}

void Recorder::start()
{
    is_started_ = true;
    listen();
}

void Recorder::tell_foreign(const pleat_change &change)
{
    if (is_on()) {
        see(&change, this);
    }
}

Context Recorder::born(DeviceIndex index, pleat_devptr base)
{
    const std::lock_guard<std::mutex> guard(mutex_);
    const Device &device = device_at(index);
    const auto at = device.blocks.find(base);
    return at == device.blocks.end() ? nullptr : at->second;
}

void Recorder::record(bool is_on, Settings settings, bool is_cleared)
{
    TORCH_CHECK(!is_on || settings.when == CA::RecordContext::NEVER || settings.gather != nullptr,
                "pleat: a history with stacks needs the function that gathers them");
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        const bool is_smaller = settings.most < settings_.most;
        is_recording_ = is_on;
        settings_ = std::move(settings);
        level_ = is_on ? static_cast<int>(settings_.when) : 0;
        gather_ = is_on ? settings_.gather : nullptr;
        for (auto &device : devices_) {
            if (is_cleared || !is_on || is_smaller || device->next > 0) {
                device->ring.clear();
                device->next = 0;
            }
        }
    }
    listen();
}

void Recorder::track(CA::AllocatorTraceTracker tracker)
{
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        trackers_.push_back(std::move(tracker));
    }
    listen();
}

/* ---- notes in entries ---- */

void Recorder::annotate(const std::vector<std::pair<std::string, std::string>> &metadata)
{
    const std::lock_guard<std::mutex> guard(mutex_);
    if (!is_recording_) {
        return;
    }
    DeviceIndex device = 0;
    (void)c10::cuda::GetDevice(&device);
    Annotations::value_type entry(device, c10::getApproximateTime());
    for (const auto &[name, value] : metadata) {
        entry.recordUserMetadata(name, value);
    }
    if (annotations_.size() >= std::max<size_t>(settings_.most, 1)) {
        annotations_.erase(annotations_.begin());
    }
    annotations_.push_back(std::move(entry));
}

void Recorder::annotate_block(const pleat_block_info &info, const std::string &text)
{
#if PLEAT_TORCH_HAS_BLOCK_NOTES
    pleat_change change{};
    change.kind = static_cast<pleat_change_kind>(CA::TraceEntry::ANNOTATE);
    change.device = info.device;
    change.base = info.base;
    change.bytes = info.requested_bytes;
    change.stream = info.stream;
    const std::lock_guard<std::mutex> guard(mutex_);
    Device &device = device_at(info.device);
    tell(device, make_entry(change, current != nullptr ? *current : nullptr, text));
#else
    (void)info;
    (void)text;
#endif
}

void Recorder::push_compile_context(const std::string &text)
{
    compile_contexts.push_back(text);
}

void Recorder::pop_compile_context()
{
    if (!compile_contexts.empty()) {
        compile_contexts.pop_back();
    }
}

void Recorder::set_metadata(DeviceIndex device, const std::string &text)
{
    const std::lock_guard<std::mutex> guard(mutex_);
    metadata_of(device_at(device).metadata) = text;
}

std::string Recorder::metadata(DeviceIndex device)
{
    const std::lock_guard<std::mutex> guard(mutex_);
    return metadata_of(device_at(device).metadata);
}

} // namespace pleat_torch
