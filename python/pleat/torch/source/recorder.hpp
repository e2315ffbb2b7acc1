/* recorder.hpp - PyTorch's history of memory: entries with the stacks that PyTorch gathers, for its
 * snapshots and for trackers of every change.
 *
 * pleat tells its watcher of each change under pleat's lock, on the thread that makes the change.
 * Before the call the thread gathers a context, which becomes the context of the change. A live
 * block keeps its allocation's context. While nobody records or tracks, pleat tells nothing, and
 * calls take their short path. Histories of different devices may be told at the same time, so the
 * mutex guards everything. Contexts are released under the mutex, as PyTorch's own allocator
 * releases them under its lock. */
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/util/ApproximateClock.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "pleat_torch.h"
#include "versions.hpp"

namespace pleat_torch
{

using Context = std::shared_ptr<c10::GatheredContext>;
using Annotations = decltype(CA::SnapshotInfo::external_annotations);

class Recorder
{
public:
    struct Settings {
        CA::CreateContextFn gather = nullptr;
        size_t most = 1; /* entries of a device */
        CA::RecordContext when = CA::RecordContext::NEVER;
        std::unordered_set<int> skipped; /* actions */
    };

    /* Holds the calling thread's context for the changes of its next call of pleat. */
    class Scope
    {
    public:
        /* `tag` is the reason in the entries, if they have room for one (internal_metadata). */
        Scope(Recorder &recorder, CA::RecordContext level, const char *tag = nullptr);
        ~Scope();
        Scope(const Scope &) = delete;
        Scope &operator=(const Scope &) = delete;

    private:
        Context context_;
        Context *before_;
        const char *tag_before_;
    };

    /* Does anybody record or track? */
    bool is_on() const
    {
        return is_on_.load(std::memory_order_relaxed);
    }
    /* Takes no mutex: trackers call this. */
    bool is_recording() const
    {
        return is_recording_;
    }
    /* A change of memory that is not pleat's. */
    void tell_foreign(const pleat_change &change);
    Context born(DeviceIndex device, pleat_devptr base); /* of a live block */
    /* From now on pleat may be asked; before CUDA is initialised, asking would initialise CUDA. */
    void start();
    void record(bool is_on, Settings settings, bool is_cleared);
    void track(CA::AllocatorTraceTracker tracker);
    void annotate(const std::vector<std::pair<std::string, std::string>> &metadata);
    /* Add an entry for a live block, with the scope's stack. */
    void annotate_block(const pleat_block_info &info, const std::string &text);
    void push_compile_context(const std::string &text);
    void pop_compile_context();
    void set_metadata(DeviceIndex device, const std::string &text);
    std::string metadata(DeviceIndex device);

    /* The state and, `with_traces`, the history of a device at one moment. */
    void add_device(DeviceIndex device, MempoolId pool, bool with_traces, CA::SnapshotInfo &out);
    void add_annotations(CA::SnapshotInfo &out);

private:
    using Contexts = std::unordered_map<pleat_devptr, Context>;
    struct Device {
        std::vector<CA::TraceEntry> ring; /* the next one to be overwritten is at `next` */
        size_t next = 0;
        Contexts blocks;
        Contexts segments;
        std::string metadata;
        /* As they were when pleat_visit looked. */
        std::vector<CA::TraceEntry> seen_entries;
        Contexts seen_blocks;
        Contexts seen_segments;
    };

    static void see(const pleat_change *change, void *context);
    void note(const pleat_change &change);
    Context context_of(Device &device, const pleat_change &change);
    void tell(Device &device, const pleat_change &change, Context context);
    void tell(Device &device, CA::TraceEntry entry);
    static void keep_seen(Device &device);
    Device &device_at(int device);
    void listen();

    /* Entries hold ticks of the processor, compared with the clock now and when somebody looks. */
    c10::ApproximateClockToUnixTimeConverter clock_;
    std::atomic<bool> is_on_{ false };
    std::atomic<bool> is_started_{ false };
    std::mutex listening_; /* of listen(); taken before `mutex_` */
    std::mutex mutex_;     /* guards the rest */
    std::mutex looking_;   /* one snapshot at a time; taken before `mutex_` */
    std::atomic<bool> is_recording_{ false };
    std::atomic<int> level_{ 0 };                      /* settings_.when, or 0 */
    std::atomic<CA::CreateContextFn> gather_{ nullptr }; /* settings_.gather */
    Settings settings_;
    std::vector<CA::AllocatorTraceTracker> trackers_;
    Annotations annotations_;
    std::vector<std::unique_ptr<Device>> devices_;
};

} // namespace pleat_torch
