/* pleat_tag.h - tags: names for memory, and memory that sleeps.
 *
 * A tag is a name: "weights", "kv". While a tag is in force, blocks and buffers that the thread
 * allocates carry the tag. Each sequence of committed pages of a buffer counts as a block
 * (pleat_buffer.h). Blocks of a tag lie together and share granules with no other block; their free
 * memory serves everybody. A program can ask how much memory a tag has, limit the tag, and let the
 * tag sleep: its memory goes back to the driver while its blocks and addresses stay.
 *
 * Tag names belong to the process. Statistics, limit and sleep of a tag belong to a device of an
 * instance. A request that a private pool takes (pleat_pool_begin) carries no tag, and is served
 * while the tag sleeps, since a graph's memory must exist. Only allocator:pleat knows tags. With
 * other allocators a tag changes nothing, and a sleep returns PLEAT_ENOTSUP.
 *
 * Part of pleat.h: see there for results that any call may return. */
#ifndef PLEAT_TAG_H
#define PLEAT_TAG_H

#include "pleat.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    PLEAT_TAG_BYTES = 64, /* most bytes of a tag, the zero included */
    PLEAT_MOST_TAGS = 64, /* of a process */
    PLEAT_MOST_SCOPES = 64
};

/** What happens to the contents of a tag that sleeps. */
typedef enum pleat_sleep {
    PLEAT_SLEEP_DISCARD = 0, /* lost: after the wake blocks hold anything */
    PLEAT_SLEEP_HOST = 1,    /* kept in page-locked memory of the host */
    PLEAT_SLEEP_FILE = 2     /* kept in a file */
} pleat_sleep;

/** Result of a sleep or a wake. Units: bytes of device memory, in whole granules. */
typedef struct pleat_slept {
    uint64_t bytes;        /* given back to the driver, or got from it */
    uint64_t shared_bytes; /* a sleep: left, since other processes map the memory (pleat_share.h) */
    uint64_t kept_bytes;   /* with contents that are kept, or are back */
    uint64_t left_bytes;   /* a wake: still missing */
} pleat_slept;

/** The memory of a tag on a device. */
typedef struct pleat_tag_info {
    pleat_stat blocks;          /* live */
    pleat_stat allocated_bytes; /* of live blocks, rounded */
    pleat_stat requested_bytes; /* of live blocks, as asked for */
    uint64_t resident_bytes;    /* device memory now, free memory among blocks included */
    uint64_t asleep_bytes;      /* device memory given back by a sleep */
    uint64_t kept_bytes;        /* with contents kept elsewhere */
    uint64_t limit_bytes;       /* 0 = none */
    uint64_t n_sleeps;
    int is_asleep;
} pleat_tag_info;
typedef pleat_tag_info pleat_tag_figures; /* the former name, for source that has it */

/** Begin a scope of the calling thread: until pleat_tag_pop the thread's allocations carry the tag,
 *  on any instance and device. Scopes nest; the innermost scope counts.
 *
 *  Params   tag  1 to PLEAT_TAG_BYTES - 1 bytes; NULL = allocations carry no tag.
 *  Returns  PLEAT_OK; PLEAT_EINVAL (an empty or too long tag, or scopes are too deep);
 *           PLEAT_ENOMEM_HOST (also when there are PLEAT_MOST_TAGS already).
 *  Failure  no scope was begun.
 *  Threads  any; each has its own scopes.
 *  Blocks   never. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_tag_push(const char *tag);

/** End the calling thread's innermost scope.
 *
 *  Returns  PLEAT_OK; PLEAT_EINVAL (there is none).
 *  Threads  any.
 *  Blocks   never. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_tag_pop(void);

/** Name the tags of the process, one by one.
 *
 *  Params   index  0, 1, 2... in order of first use.
 *  Returns  the tag, which stays where it is; NULL: there are not that many.
 *  Threads  any.
 *  Blocks   never. */
PLEAT_API const char *pleat_tag_name(unsigned index);

/** Name the tag of the calling thread's innermost scope; NULL: none.
 *
 *  Threads  any.
 *  Blocks   never. */
PLEAT_API const char *pleat_tag_current(void);

/** Allocate a block as pleat_block_alloc does, in a scope of the tag that ends with the call.
 *
 *  Returns  all results of pleat_tag_push and pleat_block_alloc; PLEAT_EASLEEP (the tag sleeps).
 *  Failure  as before.
 *  Owner    the caller, until pleat_block_free.
 *  Threads  any.
 *  Blocks   as pleat_block_alloc. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_tag_alloc(pleat instance, int device, const char *tag,
                                                      size_t bytes, void *stream,
                                                      pleat_devptr *out);

/** Read statistics of the tag on a device; all are zero where the tag never had a block.
 *
 *  Returns  PLEAT_OK; PLEAT_EINVAL (no scope of that tag was ever begun); PLEAT_EDEVICE.
 *  Threads  any.
 *  Blocks   never; opens no device. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_tag_query_sized(pleat instance, int device,
                                                            const char *tag, size_t out_bytes,
                                                            pleat_tag_info *out);
#ifndef PLEAT_FIRST_VERSIONS
PLEAT_MUST_USE static inline pleat_status pleat_tag_query(pleat instance, int device,
                                                          const char *tag, pleat_tag_info *out)
{
    return pleat_tag_query_sized(instance, device, tag, sizeof *out, out);
}
/** The former name, for source that has it; the library has no such symbol. */
PLEAT_MUST_USE static inline pleat_status pleat_tag_stats(pleat instance, int device,
                                                          const char *tag, pleat_tag_info *out)
{
    return pleat_tag_query(instance, device, tag, out);
}
#endif

/** Limit the bytes of live blocks of the tag on the device. A request beyond the limit fails with
 *  PLEAT_ENOMEM_DEVICE, after the pressure callback was asked, and the text names the tag.
 *
 *  Units    bytes, as rounded; 0 = no limit.
 *  Returns  PLEAT_OK, also when more than that lives already; PLEAT_EINVAL (a bad tag);
 *           PLEAT_ENOTSUP; PLEAT_ENOMEM_HOST; all results of opening the device.
 *  Threads  any.
 *  Blocks   never on the GPU. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_tag_set_limit(pleat instance, int device,
                                                          const char *tag, uint64_t bytes);

/** Give the tag's memory on the device back to the driver. Its blocks stay live, keep their
 *  addresses, and may be freed and queried. But until pleat_tag_wake there is no memory at their
 *  addresses, and nothing can be allocated under the tag.
 *
 *  The call waits for all work submitted to the device earlier, by anybody. From the call on, no
 *  submitted work may touch the tag's blocks. Work on other memory goes on, as do all other calls
 *  of pleat.
 *
 *  Params   how     what happens to the contents.
 *           folder  PLEAT_SLEEP_FILE: where the file is made. It has no name, so it is gone when
 *                   the tag wakes or the process ends. Else NULL.
 *           out     may be NULL.
 *  Returns  PLEAT_OK, also where the tag has nothing on the device; PLEAT_EINVAL (no scope of that
 *           tag was ever begun; no folder); PLEAT_EASLEEP (it sleeps already); PLEAT_ECAPTURE (a
 *           capture is under way, or requests are routed to a private pool); PLEAT_EPENDING
 *           (work is not over in time, as the text says); PLEAT_ENOTSUP;
 *           PLEAT_ENOMEM_HOST; PLEAT_EWRITE (the file); PLEAT_EDRIVER; all results of opening the
 *           device: after these failures the tag is awake, as before.
 *           PLEAT_EPOISONED: the tag sleeps, but the driver did not unmap all of it, and refused to
 *           map unmapped memory again; nothing is lost, and pleat_tag_wake goes on from there.
 *  Threads  any; one sleep, wake or compaction of a device at a time.
 *  Blocks   on the GPU, until what was submitted is over, at most 30 times wait_ms or a second,
 *           the longer (with a driver before 555, without a limit); on copies, and on the disk. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_tag_sleep_sized(pleat instance, int device,
                                                            const char *tag, pleat_sleep how,
                                                            const char *folder, size_t out_bytes,
                                                            pleat_slept *out);
#ifndef PLEAT_FIRST_VERSIONS
PLEAT_MUST_USE static inline pleat_status pleat_tag_sleep(pleat instance, int device,
                                                          const char *tag, pleat_sleep how,
                                                          const char *folder, pleat_slept *out)
{
    return pleat_tag_sleep_sized(instance, device, tag, how, folder, sizeof *out, out);
}
#endif

/** Map memory again under the tag's live blocks, at the same addresses and with the kept contents.
 *  Graphs that use the blocks can be launched again.
 *
 *  If memory is short, the call uses all free memory of the device, once its uses are over, and
 *  asks the pressure callback.
 *
 *  Params   most_bytes  the most to map in this call, rounded up to granules, in the order of
 *                       addresses; 0 = all. The tag sleeps until nothing is missing.
 *           out         may be NULL.
 *  Returns  PLEAT_OK, also where it is awake; PLEAT_EINVAL (no scope of that tag was ever begun);
 *           PLEAT_ENOMEM_DEVICE, PLEAT_EPENDING (pleat_last_error has the verdict, and in `bytes`
 *           the memory that it needs); PLEAT_ENOMEM_HOST; PLEAT_EWRITE (the file is not readable);
 *           PLEAT_EDRIVER; PLEAT_EPOISONED; PLEAT_EDEVICE.
 *  Failure  the tag sleeps on, and no kept contents are lost.
 *  Threads  any; one sleep, wake or compaction of a device at a time.
 *  Blocks   on the driver, on copies, and on the disk. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_tag_wake_sized(pleat instance, int device,
                                                           const char *tag, uint64_t most_bytes,
                                                           size_t out_bytes, pleat_slept *out);
#ifndef PLEAT_FIRST_VERSIONS
PLEAT_MUST_USE static inline pleat_status pleat_tag_wake(pleat instance, int device,
                                                         const char *tag, uint64_t most_bytes,
                                                         pleat_slept *out)
{
    return pleat_tag_wake_sized(instance, device, tag, most_bytes, sizeof *out, out);
}
#endif

/** Copy contents that a sleep has kept to host memory, without waking the tag.
 *
 *  Units    bytes, as they were when the tag fell asleep.
 *  Params   ptr  any address in a live block, or in committed pages of a buffer. Its tag sleeps
 *                with contents kept (PLEAT_SLEEP_HOST, PLEAT_SLEEP_FILE), or is awake and retains
 *                them (pleat_tag_retain): then no block of the tag has come since the wake, and no
 *                sleep has failed.
 *           to   has room for `bytes`.
 *  Returns  PLEAT_OK; PLEAT_EINVAL; PLEAT_EFOREIGN (not all of it is such memory: the text says
 *           why); PLEAT_EWRITE (the file is not readable); PLEAT_EDEVICE.
 *  Failure  some of `to` may be written.
 *  Threads  any; waits for a sleep, wake or compaction of the device that is under way.
 *  Blocks   on the copy, or the disk; never on the GPU. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_tag_read_kept(pleat instance, int device,
                                                          pleat_devptr ptr, size_t bytes, void *to);

/** Find kept contents in host memory, for reading without a copy.
 *
 *  Params   out [out] their address: page-locked memory, to be read. At most 32 MiB are side by
 *                side.
 *  Returns  as pleat_tag_read_kept; PLEAT_ENOTSUP (they are in a file, or not side by side).
 *  Failure  nothing was written.
 *  Owner    pleat, until a wake of the tag that does not retain the contents, a sleep of another
 *           kind (one of the same kind writes there), pleat_tag_retain with 0, or pleat_destroy.
 *  Threads  any; waits for a sleep, wake or compaction of the device that is under way.
 *  Blocks   never on the GPU. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_tag_find_kept(pleat instance, int device,
                                                          pleat_devptr ptr, size_t bytes,
                                                          void **out);

/** Let wakes of the tag, from now on, leave host memory that a sleep with PLEAT_SLEEP_HOST has
 *  filled. Until the next sleep the program can read the contents, and that sleep need not
 *  page-lock memory again. A block that lives on is kept at the same place, unless the tag has
 *  outgrown the retained memory.
 *
 *  Params   is_retained  0 (as at first): a wake gives the host memory back, and this call gives
 *                        back host memory that an awake tag has retained.
 *  Returns  PLEAT_OK; PLEAT_EINVAL (a bad tag); PLEAT_ENOTSUP; PLEAT_ENOMEM_HOST; all results of
 *           opening the device.
 *  Threads  any.
 *  Blocks   never on the GPU. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_tag_retain(pleat instance, int device, const char *tag,
                                                       int is_retained);

#ifdef __cplusplus
}
#endif

#endif
