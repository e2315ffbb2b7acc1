/* pleat_tag.h - tags: names for memory, and memory that sleeps.
 *
 * A tag is a name: "weights", "kv". What a thread allocates while a tag is in force carries it, and
 * so do buffers that it makes then (pleat_buffer.h): of these, each sequence of committed pages
 * counts as a block. Such blocks lie together, so that they share granules with nobody else; their
 * free memory serves everybody. Of a tag one can know how much there is, limit it, and let it
 * sleep: its memory goes back to the driver while its blocks and addresses stay.
 *
 * Tags belong to the process; what is known of each, and its sleep, to a device of an instance. A
 * request that a private pool takes (pleat_pool_begin) carries no tag, and is served while the tag
 * sleeps: a graph's memory has to be there. Allocators other than pleat itself know no tags: there
 * they change nothing, and nothing sleeps (PLEAT_ENOTSUP).
 *
 * Part of pleat.h, which includes it and says what every call may return. */
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

/** What becomes of the contents of a tag that sleeps. */
typedef enum pleat_sleep {
    PLEAT_SLEEP_DISCARD = 0, /* they are lost: after the wake blocks hold anything */
    PLEAT_SLEEP_HOST = 1,    /* kept in page-locked memory of the host */
    PLEAT_SLEEP_FILE = 2     /* kept in a file */
} pleat_sleep;

/** What a sleep or a wake did. Units: bytes of device memory, in whole granules. */
typedef struct pleat_slept {
    uint64_t bytes;        /* given back to the driver, or had from it */
    uint64_t shared_bytes; /* a sleep: that stay, since other processes map them (pleat_share.h) */
    uint64_t kept_bytes;   /* whose contents are kept, or are back */
    uint64_t left_bytes;   /* a wake: that are still missing */
} pleat_slept;

/** What a device has under a tag. */
typedef struct pleat_tag_info {
    pleat_stat blocks;          /* live */
    pleat_stat allocated_bytes; /* of these, rounded */
    pleat_stat requested_bytes; /* of these, as asked for */
    uint64_t resident_bytes;    /* of device memory now, free memory among its blocks included */
    uint64_t asleep_bytes;      /* of device memory that it has given back while it sleeps */
    uint64_t kept_bytes;        /* whose contents are kept elsewhere */
    uint64_t limit_bytes;       /* 0 = none */
    uint64_t n_sleeps;
    int is_asleep;
} pleat_tag_info;
typedef pleat_tag_info pleat_tag_figures; /* the former name, for this version */

/** Begin a scope of the calling thread: what it allocates until pleat_tag_pop carries the tag,
 *  whichever instance and device. Scopes nest; of several the innermost counts.
 *
 *  Params   tag  1 to PLEAT_TAG_BYTES - 1 bytes; NULL = what is allocated carries no tag.
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

/** Name the tags of the process.
 *
 *  Params   index  0, 1, 2... in order of first use.
 *  Returns  the tag, which stays where it is; NULL: there are not that many.
 *  Threads  any.
 *  Blocks   never. */
PLEAT_API const char *pleat_tag_name(unsigned index);

/** Name the tag that the calling thread's innermost scope sets; NULL: none.
 *
 *  Threads  any.
 *  Blocks   never. */
PLEAT_API const char *pleat_tag_current(void);

/** Allocate as pleat_block_alloc does, in a scope of the tag that lasts for this call.
 *
 *  Returns  what pleat_tag_push and pleat_block_alloc return; PLEAT_EASLEEP (the tag sleeps).
 *  Failure  as before.
 *  Owner    the caller, until pleat_block_free.
 *  Threads  any.
 *  Blocks   as pleat_block_alloc. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_tag_alloc(pleat instance, int device, const char *tag,
                                                      size_t bytes, void *stream,
                                                      pleat_devptr *out);

/** Read what the device has under the tag; all zero where it never had any.
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
/** The former name, for this version. */
PLEAT_MUST_USE static inline pleat_status pleat_tag_stats(pleat instance, int device,
                                                          const char *tag, pleat_tag_info *out)
{
    return pleat_tag_query(instance, device, tag, out);
}
#endif

/** Limit what live blocks of the tag may have on the device. A request beyond it is refused with
 *  PLEAT_ENOMEM_DEVICE, after the pressure callback was asked, and the text names the tag.
 *
 *  Units    bytes, as rounded; 0 = no limit.
 *  Returns  PLEAT_OK, also when more than that lives already; PLEAT_EINVAL (a bad tag);
 *           PLEAT_ENOTSUP; PLEAT_ENOMEM_HOST; what opening the device returns.
 *  Threads  any.
 *  Blocks   never on the GPU. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_tag_set_limit(pleat instance, int device,
                                                          const char *tag, uint64_t bytes);

/** Give the tag's memory on the device back to the driver. Its blocks stay live and keep their
 *  addresses, and may be freed and queried as ever; but nothing is at those addresses until
 *  pleat_tag_wake, and nothing is allocated under the tag.
 *
 *  The call waits for all work that was submitted to the device before it, by whomever; from the
 *  call on no work may be submitted that touches the tag's blocks. Work on other memory goes on, as
 *  do all other calls of pleat.
 *
 *  Params   how     what becomes of the contents.
 *           folder  PLEAT_SLEEP_FILE: where the file is made. It has no name, so it is gone when
 *                   the tag wakes or the process ends. Else NULL.
 *           out     may be NULL.
 *  Returns  PLEAT_OK, also where the tag has nothing on the device; PLEAT_EINVAL (no scope of that
 *           tag was ever begun; no folder); PLEAT_EASLEEP (it sleeps already); PLEAT_ECAPTURE (a
 *           capture is under way, or requests are routed to a private pool); PLEAT_ENOTSUP;
 *           PLEAT_ENOMEM_HOST; PLEAT_EWRITE (the file); PLEAT_EDRIVER; what opening the device
 *           returns: then the tag is awake, as before.
 *           PLEAT_EPOISONED: it sleeps, but the driver did not unmap all of it, and refused to map
 *           again what it had unmapped; nothing is lost, and pleat_tag_wake goes on from there.
 *  Threads  any; one sleep, wake or compaction of a device at a time.
 *  Blocks   on the GPU, until it is idle; on copies, and on the disk. */
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

/** Have memory again under what still lives of the tag, at the same addresses and with the contents
 *  that were kept. Graphs that use its blocks can be launched again.
 *
 *  Where memory is short, all that is free and over on the device is used, whoever had it, and the
 *  pressure callback is asked.
 *
 *  Params   most_bytes  have no more than this in this call, rounded up to granules, in the order
 *                       of addresses; 0 = all. The tag sleeps until nothing is missing.
 *           out         may be NULL.
 *  Returns  PLEAT_OK, also where it is awake; PLEAT_EINVAL (no scope of that tag was ever begun);
 *           PLEAT_ENOMEM_DEVICE, PLEAT_EPENDING (pleat_last_error has the verdict, and in `bytes`
 *           the memory that it needs); PLEAT_ENOMEM_HOST; PLEAT_EWRITE (the file is not readable);
 *           PLEAT_EDRIVER; PLEAT_EPOISONED; PLEAT_EDEVICE.
 *  Failure  it sleeps on, and nothing that was kept is lost.
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

/** Copy what a sleep has kept of memory to host memory, without waking it.
 *
 *  Units    bytes, as they were when the tag fell asleep.
 *  Params   ptr  any address in a live block, or in committed pages of a buffer, whose tag sleeps
 *                with its contents kept (PLEAT_SLEEP_HOST, PLEAT_SLEEP_FILE), or is awake and
 *                retains them (pleat_tag_retain) while no block of it has come since the wake, and
 *                no sleep failed.
 *           to   has room for `bytes`.
 *  Returns  PLEAT_OK; PLEAT_EINVAL; PLEAT_EFOREIGN (not all of it is such memory: the text says
 *           why); PLEAT_EWRITE (the file is not readable); PLEAT_EDEVICE.
 *  Failure  some of `to` may be written.
 *  Threads  any; waits for a sleep, wake or compaction of the device that is under way.
 *  Blocks   on the copy, or the disk; never on the GPU. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_tag_read_kept(pleat instance, int device,
                                                          pleat_devptr ptr, size_t bytes, void *to);

/** Tell where in host memory such bytes are, so that they need not be copied.
 *
 *  Params   out [out] their address: page-locked memory, to be read. At most 32 MiB are side by
 *                side.
 *  Returns  as pleat_tag_read_kept; PLEAT_ENOTSUP (they are in a file, or not side by side).
 *  Failure  nothing was written.
 *  Owner    pleat, until the next wake of the tag that does not retain it, a sleep of another kind
 *           (one of the same kind writes there), pleat_tag_retain with 0, or pleat_destroy.
 *  Threads  any; waits for a sleep, wake or compaction of the device that is under way.
 *  Blocks   never on the GPU. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_tag_find_kept(pleat instance, int device,
                                                          pleat_devptr ptr, size_t bytes,
                                                          void **out);

/** Let wakes of the tag, from now on, leave the host memory that a sleep with PLEAT_SLEEP_HOST has
 *  filled: until the next sleep what it holds can be read, and that sleep need not page-lock memory
 *  again. What lives on is kept at the same place, unless the tag has grown beyond what there is.
 *
 *  Params   is_retained  0 (as at first): a wake gives the host memory back, and so does this call
 *                        what an awake tag has retained.
 *  Returns  PLEAT_OK; PLEAT_EINVAL (a bad tag); PLEAT_ENOTSUP; PLEAT_ENOMEM_HOST; what opening the
 *           device returns.
 *  Threads  any.
 *  Blocks   never on the GPU. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_tag_retain(pleat instance, int device, const char *tag,
                                                       int is_retained);

#ifdef __cplusplus
}
#endif

#endif
