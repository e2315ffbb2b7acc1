/* pleat_snapshot.h - histories and snapshots, as PyTorch writes them.
 *
 * Part of pleat.h: see there for results that any call may return. */
#ifndef PLEAT_SNAPSHOT_H
#define PLEAT_SNAPSHOT_H

#include "pleat.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    PLEAT_HISTORY_FRAMES = 1,      /* with the C stack of every allocation: microseconds each */
    PLEAT_HISTORY_FREE_FRAMES = 2, /* also of every free */
    PLEAT_HISTORY_KEEP = 4,        /* keep earlier entries */
};

/** Record allocations, frees, mappings and unmappings from now on.
 *
 *  Units    entries, for each device: a ring, the oldest are overwritten. 0 = stop recording; old
 *           entries stay, but do not lead to the state of later snapshots.
 *  Params   flags  PLEAT_HISTORY_...
 *  Returns  PLEAT_OK; PLEAT_EINVAL (unknown flags, more than 2^28 entries); PLEAT_ENOMEM_HOST.
 *  Failure  as before.
 *  Threads  any. Devices opened later record, too.
 *  Blocks   never on the GPU. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_history_record(pleat instance, size_t max_entries,
                                                           unsigned flags);

typedef enum pleat_snapshot_format {
    PLEAT_SNAPSHOT_PICKLE, /* protocol 2, for readers of torch.cuda.memory._dump_snapshot */
    PLEAT_SNAPSHOT_JSON,
} pleat_snapshot_format;

/** Takes `n` bytes of output; false = a failure: stop. */
typedef bool (*pleat_write_fn)(void *context, const void *bytes, size_t n);

/** Write the state of all devices in use, and their histories, as PyTorch's snapshot dictionary. If
 *  the history holds entries, each device's state and history are of one instant. Otherwise blocks
 *  are copied some thousand at a time: blocks do not overlap, and each block is as it was when
 *  copied.
 *
 *  Returns  PLEAT_OK; PLEAT_EINVAL; PLEAT_ENOMEM_HOST; PLEAT_EWRITE (`write` refused).
 *  Failure  some of the output may have been written.
 *  Threads  any; the allocator's lock is held while state is copied (all of it, if the state has to
 *           agree with a history), not during `write`.
 *  Blocks   never on the GPU; opens no device. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_snapshot_write(pleat instance,
                                                           pleat_snapshot_format format,
                                                           pleat_write_fn write, void *context);

/** Write the snapshot of pleat_snapshot_write to a file. The call writes a new file beside `path`,
 *  and renames the new file once it is complete. An existing file keeps its mode, and its owner and
 *  group if the system allows. Other hard links keep the old content. A new file gets 0666 less the
 *  umask.
 *
 *  Params   path  ends in .json: JSON; else a pickle. A symbolic link stays: its target is
 *           replaced, or made if it is missing. A pipe or a device is written to.
 *  Returns  as pleat_snapshot_write; PLEAT_EWRITE names the path and the system's reason.
 *  Failure  the file is as before.
 *  Threads  any.
 *  Blocks   on the file system. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_snapshot_dump(pleat instance, const char *path);

/** Measure the longest stretch of free resident memory outside of private pools, settled or not. A
 *  larger request needs memory from the driver or from elsewhere.
 *
 *  Units    bytes.
 *  Params   bytes [out] 0 for a device never used.
 *  Returns  PLEAT_OK; PLEAT_EINVAL; PLEAT_EDEVICE.
 *  Threads  any; some thousand blocks are looked at in one hold of the allocator's lock.
 *  Blocks   never; opens no device. Cost grows with the number of blocks.
 *  Source   PyTorch's CUDACachingAllocator::cacheInfo. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_device_largest_free(pleat instance, int device,
                                                                uint64_t *bytes);

/** Remember this moment of a device, for pleat_leaks.
 *
 *  Units    a number that only pleat_leaks reads.
 *  Returns  PLEAT_OK; PLEAT_EINVAL (nothing is recorded: call pleat_history_record before);
 *           PLEAT_EDEVICE.
 *  Threads  any.
 *  Blocks   never; opens no device. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_mark(pleat instance, int device, uint64_t *mark);

/** Live blocks that were allocated by one stack of calls after a mark. */
typedef struct pleat_leak {
    int device;
    size_t n_blocks;
    uint64_t bytes; /* as requested */
    uint64_t age;   /* allocations on the device since the oldest of them */
    size_t n_frames;
    void *const *frames; /* return addresses, innermost first; none without PLEAT_HISTORY_FRAMES */
    const char *text;    /* all of this in one line */
} pleat_leak;

/** List the blocks that were allocated after a mark and still live, by the stack of calls that
 *  allocated them, the most bytes first. Blocks that are freed and wait for a stream are not
 *  listed, nor are buffers.
 *
 *  Params   mark  of this instance and device, from pleat_mark.
 *           see   called once for each stack, without any lock. The leak lives for the call. Must
 *                 not destroy the instance.
 *  Returns  PLEAT_OK; PLEAT_EINVAL (`see` is NULL; the device never had this mark; the recording
 *           was stopped or begun anew after the mark; more was recorded since than the ring holds:
 *           the text says how many entries would do); PLEAT_EDEVICE; PLEAT_ENOMEM_HOST.
 *  Failure  `see` was not called.
 *  Threads  any; the allocator's lock is held while its state is copied.
 *  Blocks   never on the GPU; opens no device. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_leaks(pleat instance, int device, uint64_t mark,
                                                  void (*see)(const pleat_leak *leak,
                                                              void *context),
                                                  void *context);

#ifdef __cplusplus
}
#endif

#endif
