/* pleat_snapshot.h - histories and snapshots, as PyTorch writes them.
 *
 * Part of pleat.h, which includes it and says what every call may return. */
#ifndef PLEAT_SNAPSHOT_H
#define PLEAT_SNAPSHOT_H

#include "pleat.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    PLEAT_HISTORY_FRAMES = 1,      /* with the C stack of every allocation: microseconds each */
    PLEAT_HISTORY_FREE_FRAMES = 2, /* and of every free */
    PLEAT_HISTORY_KEEP = 4,        /* keep what was recorded before */
};

/** Record what happens from now on: allocations, frees, what is mapped and unmapped.
 *
 *  Units    entries, for each device: a ring, the oldest are overwritten. 0 = stop recording; what
 *           was recorded stays, but later snapshots show a state that it does not lead to.
 *  Params   flags  PLEAT_HISTORY_...
 *  Returns  PLEAT_OK; PLEAT_EINVAL (unknown flags, more than 2^28 entries); PLEAT_ENOMEM_HOST.
 *  Failure  as before.
 *  Threads  any. Devices opened later record, too.
 *  Blocks   never on the GPU. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_history_record(pleat instance, size_t max_entries,
                                                           unsigned flags);

typedef enum pleat_snapshot_format {
    PLEAT_SNAPSHOT_PICKLE, /* protocol 2: what torch.cuda.memory._dump_snapshot's readers read */
    PLEAT_SNAPSHOT_JSON,
} pleat_snapshot_format;

/** Takes `n` bytes of output; false = it could not, stop. */
typedef bool (*pleat_write_fn)(void *context, const void *bytes, size_t n);

/** Write the state of all devices in use, and their histories, as PyTorch's snapshot dictionary.
 *  Where the history holds entries, each device's state and history are of one instant. Else blocks
 *  are copied some thousand at a time: they do not overlap, and each is as it was at its moment.
 *
 *  Returns  PLEAT_OK; PLEAT_EINVAL; PLEAT_ENOMEM_HOST; PLEAT_EWRITE (`write` refused).
 *  Failure  some of the output may have been written.
 *  Threads  any; the allocator's lock is held while its state is copied (all of it, if it has to
 *           agree with a history), not during `write`.
 *  Blocks   never on the GPU; opens no device. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_snapshot_write(pleat instance,
                                                           pleat_snapshot_format format,
                                                           pleat_write_fn write, void *context);

/** The same into a file, which is replaced only once all is written: by one beside it that is then
 *  renamed. A file that is there keeps its mode, and its owner and group where the system lets the
 *  caller set them; other hard links keep the old content. A new one gets 0666 less the umask.
 *
 *  Params   path  ends in .json: JSON; else a pickle. A symbolic link stays; what it leads to is
 *           replaced, or made if it is missing. A pipe or a device is written to.
 *  Returns  as pleat_snapshot_write; PLEAT_EWRITE names the path and the system's reason.
 *  Failure  the file is as before.
 *  Threads  any.
 *  Blocks   on the file system. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_snapshot_dump(pleat instance, const char *path);

/** Measure the longest stretch of free resident memory outside of private pools, settled or not:
 *  what a request can have at most without more memory from the driver or from elsewhere.
 *
 *  Units    bytes.
 *  Params   bytes [out] 0 for a device never used.
 *  Returns  PLEAT_OK; PLEAT_EINVAL; PLEAT_EDEVICE.
 *  Threads  any; some thousand blocks are looked at in one hold of the allocator's lock.
 *  Blocks   never; opens no device. Cost grows with the number of blocks.
 *  Source   PyTorch's CUDACachingAllocator::cacheInfo. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_device_largest_free(pleat instance, int device,
                                                                uint64_t *bytes);

#ifdef __cplusplus
}
#endif

#endif
