/* pleat.h - GPU memory that does not fragment.
 *
 * The public interface. Every function may be called from any thread; none crashes on bad input.
 * Every fallible one returns a pleat_status and writes its out-parameters on success only; more is
 * in pleat_last_error() of the same thread. What every call on an instance may return is said once:
 *
 *   PLEAT_EGONE    the instance was destroyed, is being destroyed, or never was
 *   PLEAT_EFORKED  the instance was made before fork and this is the child: nothing was touched
 *   PLEAT_EINVAL   an out-parameter is NULL
 *
 * and of those that take a device, where its number does not exist, PLEAT_EDEVICE. The first use of
 * a device opens it, so calls that open may also return PLEAT_ENOVMM (the device cannot do what the
 * configured allocator needs, and no fallback is configured), PLEAT_ENOMEM_HOST,
 * PLEAT_ENOMEM_DEVICE and PLEAT_EDRIVER. No lock of pleat is held while a callback runs.
 *
 * Versions: structs that the library writes for the caller may get further members at their ends.
 * A call that writes one tells the library how long it was when the program was compiled: it is an
 * inline function here, and `..._sized` in the library. With a newer library the members that the
 * program does not know are not written; with an older one the members that the library does not
 * know are 0. A size that the struct cannot have is PLEAT_EINVAL. Programs that look the functions
 * up by name find those of 0.1, without a size, which write the struct as 0.1 had it.
 * pleat_error is the library's own memory, PLEAT_ERROR_ROOM bytes of it, zero behind its members.
 * pleat, pleat_pool_id, pleat_checkpoint and pleat_stat are passed by value or stand in arrays, and
 * never change; nor do numbers of statuses and other constants.
 *
 * Time: `wait_ms` bounds a call as a whole, from its first wait on: what it waits for the GPU, all
 * its tries, and the callbacks between them. If blocks were freed during a callback, it is asked
 * again, up to 64 times, and the time that it took is not the call's; else only while time is left.
 * It is never interrupted, and a call that it makes has a time of its own. Not bounded are: a call
 * of the driver that blocks by itself (before CUDA 12.5 a wait for all work of the device is one);
 * what the classic caches wait for the GPU and for each other's calls of the driver, since their
 * originals do so without a limit; and pleat_destroy, as memory that is in use cannot be given
 * back. Beyond `wait_ms` a call may take a few milliseconds, and as long as driver calls last that
 * other threads are in the middle of.
 *
 * Signals: nothing here is async-signal-safe, pleat_last_error included. A handler that calls pleat
 * while the call that it interrupted holds a lock waits for its own thread, for ever. Let it set a
 * flag or write to an eventfd, and call pleat from a thread that waits for that, or for the signal
 * itself (sigwait). A handler that does not call pleat may interrupt any call.
 *
 * Cancellation: a thread that is cancelled inside a call, a callback included, finishes the call
 * and ends at its next cancellation point. No call is one, except pleat_device_trim with `wait`,
 * before it does anything. A thread whose cancellation is asynchronous may not call pleat. */
#ifndef PLEAT_H
#define PLEAT_H

#include "pleat_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PLEAT_VERSION_MAJOR 0
#define PLEAT_VERSION_MINOR 1
#define PLEAT_VERSION_PATCH 0

#if defined(__GNUC__)
#define PLEAT_API __attribute__((visibility("default")))
#define PLEAT_MUST_USE __attribute__((warn_unused_result))
#else
#define PLEAT_API
#define PLEAT_MUST_USE
#endif

/** One instance: all devices of one driver under one allocator. A value; copies mean the same
 *  instance. After pleat_destroy every use answers PLEAT_EGONE. */
typedef struct pleat {
    uint32_t slot;
    uint32_t generation;
} pleat;

/** Why a request for memory failed: the first of these that is true; TIED and REFUSED come after
 *  PINNED. */
typedef enum pleat_verdict {
    PLEAT_VERDICT_NONE = 0,      /* it failed for another reason than memory */
    PLEAT_VERDICT_FULL,          /* live memory and the request exceed the device */
    PLEAT_VERDICT_LIMIT,         /* they exceed the instance's limit */
    PLEAT_VERDICT_FOREIGN,       /* they would fit without what others hold of the device */
    PLEAT_VERDICT_PENDING,       /* free, but its last use is not over; waiting is not allowed */
    PLEAT_VERDICT_PINNED,        /* they would fit without what captured graphs pin */
    PLEAT_VERDICT_FRAGMENTED,    /* the bytes are there; in a classic cache not in one piece */
    PLEAT_VERDICT_ADDRESS_SPACE, /* address space is exhausted, not memory */
    PLEAT_VERDICT_TIED,          /* they would fit without what is free in chunks partly in use */
    PLEAT_VERDICT_REFUSED,       /* the driver refused less than it reports free */
} pleat_verdict;

enum { PLEAT_ERROR_ROOM = 256 }; /* no version's pleat_error is longer */

/** What pleat_last_error tells of the calling thread's last failure. */
typedef struct pleat_error {
    pleat_status status;
    int driver_result;       /* CUresult, 0 if no driver call failed */
    const char *driver_call; /* "cuMemCreate", or "" */
    uint64_t bytes;          /* size concerned, 0 if none */
    const char *text;        /* one sentence: what failed, what would help; valid until the
                                 thread's next failing call */
    pleat_verdict verdict;
} pleat_error;

/** What pleat_device_query tells. The texts live as long as the instance. */
typedef struct pleat_device_info {
    const char *name;      /* the GPU's */
    const char *driver;    /* "cuda" or "sim" */
    const char *allocator; /* the one at work: "pleat", "torch-native", ... */
    const char *note;      /* why it is not the configured one; "" if it is */
    uint64_t total_bytes;
    uint64_t granule_bytes;
    uint64_t limit_bytes; /* 0 = none */
} pleat_device_info;

enum { PLEAT_DESTROY_FORCE = 1 }; /* destroy even if blocks live */

/** Called when device memory is short, on the thread that asked for it, before PLEAT_ENOMEM_DEVICE
 *  or PLEAT_EPENDING is returned. May allocate, free and query on the same instance or others, but
 *  not destroy any; requests made by it do not call it again. Must return to its caller.
 *  Returns true if it freed something: then the request is tried again. If that fails, it is asked
 *  again if it has freed blocks, or as long as `wait_ms` have not passed (at most 64 times). */
typedef bool (*pleat_pressure_fn)(pleat instance, int device, size_t bytes, void *context);
/** Called once before a request fails with PLEAT_ENOMEM_DEVICE, under the same rules; `text` is the
 *  sentence of the error. May free; cannot change the verdict. */
typedef void (*pleat_oom_fn)(pleat instance, int device, size_t bytes, const char *text,
                             void *context);

/** Make an instance.
 *
 *  Units    `conf`: `key:value,...` as in PLEAT_CONF; NULL = PLEAT_CONF alone.
 *  Params   conf  laid over the environment variable PLEAT_CONF, key by key.
 *           out [out] may be NULL: the configuration is read, no driver is touched, nothing made;
 *                     what is in sim:[...] is the simulator's to read, and is not looked into.
 *  Returns  PLEAT_OK; PLEAT_ECONF (the text names the key, the bad value and the
 *           allowed ones); PLEAT_ENODRIVER; PLEAT_EDRIVER; PLEAT_ENOMEM_HOST (also when there are
 *           64 instances).
 *  Failure  nothing was made.
 *  Owner    the caller, until pleat_destroy.
 *  Threads  any; instances are made one at a time.
 *  Blocks   on loading and initialising the driver; devices are opened by their first use.
 *           `sim:[...]` resets the simulator unless an instance made with the same text is on it
 *           (with another text: PLEAT_ECONF). */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_create(const char *conf, pleat *out);

/** Find the default instance, made from PLEAT_CONF by its first use.
 *
 *  Returns  PLEAT_OK; PLEAT_EFORKED (it was made before fork); what pleat_create returns.
 *  Failure  nothing was made; the next use tries again.
 *  Owner    the process, for its life. Who destroys it all the same makes the next use create
 *           another.
 *  Threads  any.
 *  Blocks   as pleat_create, the first time. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_default(pleat *out);

/** Destroy an instance and give everything back to the driver.
 *
 *  Params   flags  0, or PLEAT_DESTROY_FORCE: live blocks go, too.
 *  Returns  PLEAT_OK; PLEAT_EGONE; PLEAT_EFORKED; PLEAT_EBUSY (blocks live, the text says how many;
 *           or called from within a callback); PLEAT_EINVAL (unknown flags); PLEAT_EPOISONED (it is
 *           destroyed, but the driver took back less than everything: the text says how much).
 *  Failure  except for PLEAT_EPOISONED the instance is as before.
 *  Owner    copies of the handle stay safe to use: they answer PLEAT_EGONE.
 *  Threads  any; calls that other threads make meanwhile answer PLEAT_EGONE.
 *  Blocks   until calls in progress have returned, then on the last uses of all memory: by fences
 *           where there are some for it, else on all work of the context. That breaks a capture
 *           which is under way there, and memory whose last use cannot be waited for then stays
 *           with the driver (PLEAT_EPOISONED). */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_destroy(pleat instance, unsigned flags);

/** Read the whole configuration of an instance back, in a form that pleat_create accepts.
 *
 *  Units    bytes, end mark included.
 *  Params   text [out] at most `capacity` bytes, always ended; may be NULL if capacity is 0.
 *           needed [out] what the whole text needs.
 *  Returns  PLEAT_OK (also when the text was cut); PLEAT_EINVAL; PLEAT_EGONE; PLEAT_EFORKED.
 *  Threads  any. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_instance_conf(pleat instance, char *text,
                                                          size_t capacity, size_t *needed);

/** Allocate a block of device memory for use on `stream`.
 *
 *  Units    bytes, 1 to 2^60; the address is a multiple of 512, of 256 with tf-bfc.
 *  Params   stream  a CUstream; NULL = the legacy default stream.
 *  Returns  PLEAT_OK; PLEAT_EINVAL (zero bytes); PLEAT_ESIZE; PLEAT_EDEVICE; PLEAT_ESTREAM;
 *           PLEAT_ENOMEM_DEVICE (verdict and numbers in pleat_last_error); PLEAT_EPENDING;
 *           PLEAT_ENOSPACE_VA; PLEAT_ENOMEM_HOST; PLEAT_EDRIVER; PLEAT_EPOISONED; PLEAT_ECAPTURE;
 *           what opening the device returns.
 *  Failure  live blocks, statistics of allocated bytes and limits are as before; what is resident
 *           may differ.
 *  Owner    the caller, until pleat_block_free or a forced pleat_destroy.
 *  Threads  any; the allocator's lock (rank 20) is not held across driver calls or callbacks.
 *  Blocks   never on the GPU, except in the last step before failing, at most `wait_ms` with all
 *           tries and callbacks; the classic caches wait where theirs do, without a limit. Growth
 *           calls create, map and set-access. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_block_alloc(pleat instance, int device, size_t bytes,
                                                        void *stream, pleat_devptr *out);

/** Free a block; work submitted to its streams so far may still use it.
 *
 *  Params   ptr     the block's address as pleat_block_alloc gave it.
 *           stream  where the caller is; another stream than the block's own counts as a use of it.
 *  Returns  PLEAT_OK; PLEAT_EINVAL (ptr is 0); PLEAT_EFOREIGN (not the start of a live block of
 *           this device: the text names the address and where it lies); PLEAT_EDOUBLEFREE (where
 *           the allocator can tell); PLEAT_EDEVICE; PLEAT_ESTREAM; PLEAT_ENOMEM_HOST;
 *           PLEAT_EDRIVER.
 *  Failure  the block, if it is one, is as live as before.
 *  Threads  any.
 *  Blocks   never on the GPU, except in unpooled; records an event now and then. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_block_free(pleat instance, int device, pleat_devptr ptr,
                                                       void *stream);

/** Say that a block is used on a further stream: after its free it waits for that use, too.
 *
 *  Params   ptr     the block's address as pleat_block_alloc gave it.
 *           stream  the further stream; the block's own changes nothing. With peers:True also one
 *                   of another device that reaches the block, except for its default streams.
 *  Returns  PLEAT_OK; PLEAT_EINVAL; PLEAT_EFOREIGN; PLEAT_EDOUBLEFREE; PLEAT_EDEVICE;
 *           PLEAT_ESTREAM; PLEAT_ENOMEM_HOST; PLEAT_EDRIVER.
 *  Failure  the block is as before.
 *  Threads  any.
 *  Blocks   never. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_block_record_stream(pleat instance, int device,
                                                                pleat_devptr ptr, void *stream);

/** Find the live block that an address lies in.
 *
 *  Params   ptr  any address inside the block.
 *  Returns  PLEAT_OK; PLEAT_EINVAL (ptr is 0); PLEAT_EFOREIGN; PLEAT_EDEVICE.
 *  Threads  any. A block that another thread frees meanwhile may be found or not.
 *  Blocks   never; opens no device. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_block_query_sized(pleat instance, int device,
                                                              pleat_devptr ptr, size_t out_bytes,
                                                              pleat_block_info *out);
#ifndef PLEAT_FIRST_VERSIONS
PLEAT_MUST_USE static inline pleat_status pleat_block_query(pleat instance, int device,
                                                            pleat_devptr ptr, pleat_block_info *out)
{
    return pleat_block_query_sized(instance, device, ptr, sizeof *out, out);
}
#endif

/** Allocate on the default instance, in the form that adapters expect.
 *
 *  Units    bytes; the pointer is a device address.
 *  Returns  the block, or NULL with the reason in pleat_last_error: see pleat_default and
 *           pleat_block_alloc.
 *  Failure  as pleat_block_alloc.
 *  Owner    the caller, until pleat_free.
 *  Threads  any.
 *  Blocks   as pleat_block_alloc. */
PLEAT_API void *pleat_malloc(size_t bytes, int device, void *stream);

/** Free what pleat_malloc gave; NULL is fine.
 *
 *  Units    bytes: as allocated; not looked at, the block knows its size.
 *  Failure  in pleat_last_error: see pleat_block_free.
 *  Threads  any.
 *  Blocks   as pleat_block_free. */
PLEAT_API void pleat_free(void *ptr, size_t bytes, int device, void *stream);

/** Give free memory of a device back to the driver.
 *
 *  Units    bytes.
 *  Params   keep_bytes  stop when no more than this is resident; 0 = give back all that is free.
 *           wait  wait for the last uses of memory that is free but pending, at most `wait_ms`,
 *                 with wait_ms:0 a millisecond.
 *           released [out] bytes given back; may be NULL.
 *  Returns  PLEAT_OK; PLEAT_EDEVICE; PLEAT_EPENDING (not all uses were over in time: what was
 *           over has been given back); PLEAT_ENOMEM_HOST; PLEAT_EDRIVER; PLEAT_EPOISONED.
 *  Failure  live blocks are as before; some memory may have been given back.
 *  Threads  any. With `wait` a cancellation point, before anything is done.
 *  Blocks   on unmap and release; on the GPU only if `wait`. Beside threads that make captures it
 *           waits for a moment in which none of them can just have begun one: 2 ms, with `wait` up
 *           to 400 ms of `wait_ms`, and then it goes on, as a synchronisation of the device would.
 *           While a capture is known of it does not wait for all work: PLEAT_EPENDING, and the
 *           text says which. Opens no device. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_device_trim(pleat instance, int device,
                                                        uint64_t keep_bytes, bool wait,
                                                        uint64_t *released);

/** Compact a device at a safe point: live memory moves out of chunks that are partly in use, and
 *  what is won goes back to the driver. Every pointer stays valid, also in captured graphs, and
 *  every live byte stays. The call is a promise: until it returns no work is submitted to the
 *  device, captured or launched, by anybody, since memory is copied from one physical place to
 *  another meanwhile. Work that was submitted before is waited for. What others hold of the
 *  physical memory itself (memory registered for RDMA) does not follow; what other processes have
 *  open (pleat_share.h) is left where it is.
 *
 *  The first one that wins something also gives back what is free in large chunks, and from then on
 *  new chunks are granules: who compacts wants memory more than driver time. Granules are merged
 *  only while the device or the limit is nearly full (option `merge`).
 *
 *  Units    bytes and counts: pleat_compaction in pleat_types.h.
 *  Returns  PLEAT_OK; PLEAT_EINVAL; PLEAT_EDEVICE; PLEAT_ENOTSUP (the allocator at work is a
 *           classic cache, or the driver cannot copy); PLEAT_ECAPTURE (a capture is under way; the
 *           text says which); PLEAT_EPENDING; PLEAT_ENOSPACE_VA; PLEAT_ENOMEM_HOST; PLEAT_EDRIVER;
 *           PLEAT_EBUSY (mappings are observed: pleat_mapping.h);
 *           PLEAT_EPOISONED (undoing a step failed, too: memory that could not be mapped again
 *           keeps its contents, and no request is served until a later compaction has mapped it).
 *  Failure  live blocks and their contents are as before, and so is the chunk of the failing step;
 *           what was done before stays done.
 *  Threads  any; one compaction of a device at a time. Others may allocate and free meanwhile, if
 *           that submits no work. May be called from within a callback.
 *  Blocks   on all work of the device, without a limit; then on create, map, copies, unmap and
 *           release. No lock is held across these: other threads go on. Opens no device. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_device_compact_sized(pleat instance, int device,
                                                                 size_t out_bytes,
                                                                 pleat_compaction *out);
#ifndef PLEAT_FIRST_VERSIONS
PLEAT_MUST_USE static inline pleat_status pleat_device_compact(pleat instance, int device,
                                                               pleat_compaction *out)
{
    return pleat_device_compact_sized(instance, device, sizeof *out, out);
}
#endif

/** Set the most bytes that the instance may hold resident on a device, mapped or idle.
 *
 *  Units    bytes; 0 = no limit.
 *  Returns  PLEAT_OK; PLEAT_ENOMEM_DEVICE (live blocks need more); what opening the device returns;
 *           PLEAT_EPENDING; PLEAT_EDRIVER.
 *  Failure  the limit is as before.
 *  Threads  any.
 *  Blocks   on unmap and release of what is free and over the limit; on the GPU at most
 *           `wait_ms`. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_device_set_limit(pleat instance, int device,
                                                             uint64_t bytes);

/** Tell what the driver says of a device's memory: cuMemGetInfo's meaning, whatever the limit.
 *
 *  Units    bytes.
 *  Params   free_bytes [out] held by nobody: what this instance caches is not free.
 *           total_bytes [out] of the device.
 *  Returns  PLEAT_OK; PLEAT_EINVAL; PLEAT_EDRIVER; what opening the device returns.
 *  Threads  any.
 *  Blocks   on one driver call. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_device_memory_info(pleat instance, int device,
                                                               uint64_t *free_bytes,
                                                               uint64_t *total_bytes);

/** Tell what is at work on a device: GPU, driver, allocator, and why it is not the configured one.
 *
 *  Returns  PLEAT_OK; PLEAT_EINVAL; what opening the device returns.
 *  Owner    the instance keeps the texts.
 *  Threads  any. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_device_query_sized(pleat instance, int device,
                                                               size_t out_bytes,
                                                               pleat_device_info *out);
#ifndef PLEAT_FIRST_VERSIONS
PLEAT_MUST_USE static inline pleat_status pleat_device_query(pleat instance, int device,
                                                             pleat_device_info *out)
{
    return pleat_device_query_sized(instance, device, sizeof *out, out);
}
/** The former name, for this version. */
PLEAT_MUST_USE static inline pleat_status pleat_device_describe(pleat instance, int device,
                                                                pleat_device_info *out)
{
    return pleat_device_query(instance, device, out);
}
#endif

/** Read the statistics of a device.
 *
 *  Units    counts and bytes: pleat_types.h. num_ooms counts requests that failed.
 *  Returns  PLEAT_OK; PLEAT_EINVAL; PLEAT_EDEVICE. All zero for a device never used.
 *  Threads  any; one consistent snapshot under the allocator's lock.
 *  Blocks   never; opens no device. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_device_stats_sized(pleat instance, int device,
                                                               size_t out_bytes, pleat_stats *out);
#ifndef PLEAT_FIRST_VERSIONS
PLEAT_MUST_USE static inline pleat_status pleat_device_stats(pleat instance, int device,
                                                             pleat_stats *out)
{
    return pleat_device_stats_sized(instance, device, sizeof *out, out);
}
#endif

/** Set every peak of a device's statistics to what is current.
 *
 *  Returns  PLEAT_OK; PLEAT_EDEVICE.
 *  Threads  any.
 *  Blocks   never; opens no device. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_device_reset_peaks(pleat instance, int device);

/** Say that the graph captured on `stream` is gone: what it kept may be used again once its
 *  launches are over, wherever they were made. Kept is what was allocated, freed or recorded as
 *  used during the capture, but in private pools.
 *
 *  Drivers since CUDA 11.3 tell when a graph, its executables and their launches are gone: then
 *  this is not needed, and while the graph lives it releases nothing. With older ones the oldest
 *  capture on that stream is meant, so graphs go in the order in which they were captured.
 *
 *  That is allocator:pleat. cuda-async and unpooled keep it until this call, and give it back at
 *  once then, so the graph is gone before; the other classic caches keep only what was recorded on
 *  the captured stream, as the originals do.
 *
 *  Params   stream  any stream that took part; it may have been destroyed since.
 *  Returns  PLEAT_OK; PLEAT_ECAPTURE (it is still being captured); PLEAT_EDRIVER (the driver did
 *           not say whether it is); what opening the device returns; of the classic caches also
 *           PLEAT_ESTREAM.
 *  Failure  nothing was released.
 *  Threads  any.
 *  Blocks   never. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_device_release_capture(pleat instance, int device,
                                                                   void *stream);

/** Say that a stream is about to be destroyed: what was freed on it so far is fenced now, while it
 *  can be, and pleat touches the handle no more. Who creates and destroys streams should say so:
 *  else what was freed last on a stream may wait for a point behind all work of the device.
 *
 *  Params   stream  alive; nothing is submitted to it any more. The default streams stay. Devices
 *                   whose blocks it used as a peer's learn of it, too.
 *  Returns  PLEAT_OK; PLEAT_ESTREAM; PLEAT_EDEVICE; PLEAT_EDRIVER (not a stream). A device never
 *           used is not opened.
 *  Failure  as before.
 *  Owner    the stream stays the caller's. Its live blocks may be freed on any other stream.
 *  Threads  any; no other call names the stream meanwhile.
 *  Blocks   never on the GPU; asks whether it is being captured, and records an event. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_stream_retire(pleat instance, int device, void *stream);

/** Run every walker of every device in use: recompute all invariants from ground truth.
 *
 *  Params   broken [out] 0, or the number of the first broken invariant.
 *  Returns  PLEAT_OK, whatever was found; PLEAT_EINVAL.
 *  Threads  any; holds each allocator's lock throughout its walk: for looking, not for every step.
 *  Blocks   never on the GPU. Cost grows with the number of blocks. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_check(pleat instance, int *broken);

/** Set what is asked for memory when it is short; NULL = nothing.
 *
 *  Params   context  handed to every call of `fn`; stays the caller's.
 *  Returns  PLEAT_OK.
 *  Threads  any; a call of the earlier callback may still be running on another thread. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_set_pressure_callback(pleat instance,
                                                                  pleat_pressure_fn fn,
                                                                  void *context);

/** Set what is told before a request fails for lack of device memory; NULL = nothing.
 *
 *  Params   context  handed to every call of `fn`; stays the caller's.
 *  Returns  PLEAT_OK.
 *  Threads  any; a call of the earlier callback may still be running on another thread. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_set_oom_callback(pleat instance, pleat_oom_fn fn,
                                                             void *context);

/** Tell what the calling thread's last failing call failed of; successes leave it as it is.
 *
 *  Returns  never NULL; status PLEAT_OK before the first failure. Members that this library does
 *           not know yet are 0.
 *  Owner    the thread; valid until its next failing call.
 *  Threads  any; each has its own. */
PLEAT_API const pleat_error *pleat_last_error(void);

/** Describe a status in a few words.
 *
 *  Returns  a static text; "unknown status" for a number that is none.
 *  Threads  any. */
PLEAT_API const char *pleat_status_text(pleat_status status);

/** Tell the library's version, "0.1.0".
 *
 *  Returns  a static text.
 *  Threads  any. */
PLEAT_API const char *pleat_version(void);

#ifdef __cplusplus
}
#endif

#include "pleat_buffer.h"
#include "pleat_checkpoint.h"
#include "pleat_host.h"
#include "pleat_mapping.h"
#include "pleat_pool.h"
#include "pleat_share.h"
#include "pleat_snapshot.h"
#include "pleat_tag.h"
#include "pleat_watch.h"

#endif
