/* recorder.hpp - PyTorch's history of what happened to the memory: entries with the stacks that
 * PyTorch gathers, for its snapshots and for those who track every change.
 *
 * pleat tells its watcher of each change under its lock, on the thread that makes it. What that
 * thread gathered before the call is the change's context; a live block keeps the one of its
 * allocation. While nobody records or tracks, pleat tells nothing and the calls take their short
 * way. Histories of different devices are told at the same time, so all is guarded by the mutex; a
 * context is let go under it, which PyTorch's own allocator does under its lock as well. */
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

    /* Holds the calling thread's context, for what its call of pleat changes. */
    class Scope
    {
    public:
        /* `tag` is what entries say of why they were made, where they can (internal_metadata). */
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
    /* Takes no mutex: trackers ask it. */
    bool is_recording() const
    {
        return is_recording_;
    }
    /* A change of memory that is not pleat's. */
    void tell_foreign(const pleat_change &change);
    Context born(DeviceIndex device, pleat_devptr base); /* of a live block */
    /* pleat may be asked from now on: before CUDA is initialised that would initialise it. */
    void start();
    void record(bool is_on, Settings settings, bool is_cleared);
    void track(CA::AllocatorTraceTracker tracker);
    void annotate(const std::vector<std::pair<std::string, std::string>> &metadata);
    /* An entry of its own for a block that lives, with the scope's stack. */
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
    std::mutex listening_; /* of listen(); taken before the other */
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
