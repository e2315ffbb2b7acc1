/* pleat.h - GPU memory, mapped where a request needs it.
 *
 * The public interface. Every function may be called from any thread. No function crashes on bad
 * input. Every fallible function returns a pleat_status and writes its out-parameters on success
 * only; pleat_last_error() of the same thread has the details. Docstrings below leave out what
 * every call on an instance may return:
 *
 *   PLEAT_EGONE    the instance was destroyed, is being destroyed, or never was
 *   PLEAT_EFORKED  the instance was made before fork and this is the child: nothing was touched
 *   PLEAT_EINVAL   an out-parameter is NULL
 *   PLEAT_EDEVICE  the call takes a device, and no device has that number
 *
 * The first use of a device opens the device. A call that opens a device may also return
 * PLEAT_ENOVMM (the device lacks a feature of the configured allocator, and no fallback is
 * configured), PLEAT_ENOMEM_HOST, PLEAT_ENOMEM_DEVICE and PLEAT_EDRIVER. While a callback runs,
 * pleat holds no lock.
 *
 * Versions: a later version may add members at the end of structs that the library fills. Therefore
 * a call that fills a struct passes the size of the struct at compile time: the call is an inline
 * function here, and `..._sized` in the library. A newer library leaves members alone that the
 * program does not know. An older library sets members to 0 that the library does not know. A size
 * that the struct never had is PLEAT_EINVAL. Programs that look functions up by name find the
 * functions of 0.1, without a size, which write structs as 0.1 had them. The
 * struct pleat_error is memory of the library: PLEAT_ERROR_ROOM bytes, zero behind its members. The
 * structs pleat, pleat_pool_id, pleat_checkpoint and pleat_stat never change, since programs pass
 * them by value or keep them in arrays. Numbers of statuses and other constants never change.
 *
 * Time: `wait_ms` bounds a whole call, counted from its first wait: waits for the GPU, all tries,
 * and callbacks between tries. A callback that freed blocks is asked again, up to 64 times, and its
 * time does not count. Otherwise the callback is asked again only while time is left. A callback is
 * never interrupted, and calls that a callback makes have their own time. Three things are not
 * bounded. First, a driver call that blocks by itself: before CUDA 12.5, a wait for all work of the
 * device is such a call. Second, waits of the classic caches for the GPU and for driver calls of
 * other threads: their originals wait without a limit. Third, pleat_destroy, since memory in use
 * cannot be given back. A call may exceed `wait_ms` by a few milliseconds, and by the rest of
 * driver calls that other threads are making.
 *
 * Signals: no function is async-signal-safe, pleat_last_error included. If a handler calls pleat
 * while the interrupted call holds a lock, the thread waits for itself, for ever. Let the handler
 * set a flag or write to an eventfd, and call pleat from a thread that waits for the flag, the
 * eventfd or the signal (sigwait). A handler that does not call pleat may interrupt any call.
 *
 * Cancellation: a thread that is cancelled inside a call or a callback finishes the call, and ends
 * at its next cancellation point. Only pleat_device_trim with `wait` is a cancellation point, at
 * its start. A thread with asynchronous cancellation may not call pleat. */
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

/** An instance: all devices of a driver under one allocator. A value; copies mean the same
 *  instance. After pleat_destroy every use returns PLEAT_EGONE. */
typedef struct pleat {
    uint32_t slot;
    uint32_t generation;
} pleat;

/** Names a private pool (pleat_pool.h), as PyTorch's MempoolId_t does; {0, 0} names none. */
typedef struct pleat_pool_id {
    uint64_t first;
    uint64_t second;
} pleat_pool_id;

/** Why a request for memory failed: the first true reason in this order, with TIED and REFUSED
 *  after PINNED. */
typedef enum pleat_verdict {
    PLEAT_VERDICT_NONE = 0,      /* no failure for lack of memory */
    PLEAT_VERDICT_FULL,          /* live memory and the request exceed the device */
    PLEAT_VERDICT_LIMIT,         /* both exceed the instance's limit */
    PLEAT_VERDICT_FOREIGN,       /* both would fit without memory of other programs */
    PLEAT_VERDICT_PENDING,       /* free, but its last use is not over; waiting is not allowed */
    PLEAT_VERDICT_PINNED,        /* both would fit without memory that captured graphs pin */
    PLEAT_VERDICT_FRAGMENTED,    /* the bytes are free; in a classic cache not in one piece */
    PLEAT_VERDICT_ADDRESS_SPACE, /* address space is exhausted, not memory */
    PLEAT_VERDICT_TIED,          /* both would fit without free memory in chunks partly in use */
    PLEAT_VERDICT_REFUSED,       /* the driver refused less than the driver reports free */
} pleat_verdict;

enum { PLEAT_ERROR_ROOM = 256 }; /* at least the size of pleat_error in any version */

/** The calling thread's last failure, from pleat_last_error. */
typedef struct pleat_error {
    pleat_status status;
    int driver_result;       /* CUresult, 0 if no driver call failed */
    const char *driver_call; /* "cuMemCreate", or "" */
    uint64_t bytes;          /* size of the request, 0 if none */
    const char *text;        /* one sentence: the failure, and a remedy; valid until the
                                thread's next failing call */
    pleat_verdict verdict;
} pleat_error;

/** A device, from pleat_device_query. The texts live as long as the instance. */
typedef struct pleat_device_info {
    const char *name;      /* of the GPU */
    const char *driver;    /* "cuda" or "sim" */
    const char *allocator; /* the allocator at work: "pleat", "torch-native", ... */
    const char *note;      /* why the configured allocator is not at work; "" if it is */
    uint64_t total_bytes;
    uint64_t granule_bytes;
    uint64_t limit_bytes; /* 0 = none */
} pleat_device_info;

enum { PLEAT_DESTROY_FORCE = 1 }; /* destroy even if blocks live */

/** Called when device memory is short, on the requesting thread, before the request returns
 *  PLEAT_ENOMEM_DEVICE or PLEAT_EPENDING. The callback may allocate, free and query on any
 *  instance, but destroy none. Its own requests do not call the callback again. The callback must
 *  return: true if something was freed. Then the request is tried again. If the request still
 *  fails, the callback is asked again: if blocks were freed, or until `wait_ms` have passed (at
 *  most 64 times). */
typedef bool (*pleat_pressure_fn)(pleat instance, int device, size_t bytes, void *context);
/** Called once before a request fails with PLEAT_ENOMEM_DEVICE, under the rules of
 *  pleat_pressure_fn; `text` is the sentence of the error. May free; cannot change the verdict. */
typedef void (*pleat_oom_fn)(pleat instance, int device, size_t bytes, const char *text,
                             void *context);

/** Make an instance.
 *
 *  Units    `conf`: `key:value,...` as in PLEAT_CONF; NULL = PLEAT_CONF alone.
 *  Params   conf  overrides the environment variable PLEAT_CONF, key by key.
 *           out [out] may be NULL: the call only checks the configuration; no driver is touched, no
 *                     instance made. The text inside sim:[...] is not checked: only the simulator
 *                     reads it.
 *  Returns  PLEAT_OK; PLEAT_ECONF (the text names the key, the bad value and the
 *           allowed ones); PLEAT_ENODRIVER; PLEAT_EDRIVER; PLEAT_ENOMEM_HOST (also when there are
 *           64 instances).
 *  Failure  no instance was made.
 *  Owner    the caller, until pleat_destroy.
 *  Threads  any; instances are made one at a time.
 *  Blocks   on loading and initialising the driver; the first use of a device opens the device.
 *           `sim:[...]` resets the simulator, unless it is like that already and in use. If another
 *           instance uses it with another text, or the program has made contexts, streams or memory
 *           in another configuration: PLEAT_ECONF (PLEAT_SIM configures it for all). */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_create(const char *conf, pleat *out);

/** Find the default instance, made from PLEAT_CONF by its first use.
 *
 *  Returns  PLEAT_OK; PLEAT_EFORKED (the instance was made before fork); all results of
 *           pleat_create.
 *  Failure  no instance was made; the next use tries again.
 *  Owner    the process, for its life. If the program destroys the default instance, the next use
 *           makes a new one.
 *  Threads  any.
 *  Blocks   as pleat_create, the first time. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_default(pleat *out);

/** Destroy an instance and give everything back to the driver.
 *
 *  Params   flags  0, or PLEAT_DESTROY_FORCE: live blocks go, too.
 *  Returns  PLEAT_OK; PLEAT_EGONE; PLEAT_EFORKED; PLEAT_EBUSY (blocks live, the text says how many;
 *           or the caller is a callback); PLEAT_EINVAL (unknown flags); PLEAT_EPOISONED (the
 *           instance is destroyed, but the driver did not take everything back: the text says how
 *           much is left).
 *  Failure  except for PLEAT_EPOISONED the instance is as before.
 *  Owner    copies of the handle stay safe to use: calls return PLEAT_EGONE.
 *  Threads  any; calls that other threads make meanwhile return PLEAT_EGONE.
 *  Blocks   until calls in progress have returned, then on the last uses of all memory: on fences
 *           where the memory has fences, else on all work of the context. A wait for the context
 *           breaks a capture under way in the context. Memory stays with the driver if even then
 *           its last use cannot be waited for (PLEAT_EPOISONED). */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_destroy(pleat instance, unsigned flags);

/** Read back the whole configuration of an instance, in a form that pleat_create accepts.
 *
 *  Units    bytes, end mark included.
 *  Params   text [out] at most `capacity` bytes, always ended; may be NULL if capacity is 0.
 *           needed [out] size of the whole text.
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
 *           all results of opening the device.
 *  Failure  live blocks, statistics of allocated bytes and limits are as before; resident memory
 *           may differ.
 *  Owner    the caller, until pleat_block_free or a forced pleat_destroy.
 *  Threads  any; the allocator's lock (rank 20) is not held across driver calls or callbacks.
 *  Blocks   never on the GPU, except in the last step before failing: at most `wait_ms` with all
 *           tries and callbacks. The classic caches wait where their originals wait, without a
 *           limit. Growth calls create, map and set-access. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_block_alloc(pleat instance, int device, size_t bytes,
                                                        void *stream, pleat_devptr *out);

/** Free a block; work already submitted to its streams may still use the block.
 *
 *  Params   ptr     the block's address from pleat_block_alloc.
 *           stream  the caller's stream; a stream other than the block's own counts as a use.
 *  Returns  PLEAT_OK; PLEAT_EINVAL (ptr is 0); PLEAT_EFOREIGN (not the start of a live block of
 *           this device: the text names the address and where it lies); PLEAT_EDOUBLEFREE (where
 *           the allocator can tell); PLEAT_EDEVICE; PLEAT_ESTREAM; PLEAT_ENOMEM_HOST;
 *           PLEAT_EDRIVER.
 *  Failure  a live block stays live.
 *  Threads  any.
 *  Blocks   never on the GPU, except in unpooled; records an event now and then. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_block_free(pleat instance, int device, pleat_devptr ptr,
                                                       void *stream);

/** Say that a further stream uses a block: once freed, the block also waits for that use.
 *
 *  Params   ptr     the block's address from pleat_block_alloc.
 *           stream  the further stream; the block's own changes nothing. With peers:True also a
 *                   stream of another device that reaches the block, except its default streams.
 *  Returns  PLEAT_OK; PLEAT_EINVAL; PLEAT_EFOREIGN; PLEAT_EDOUBLEFREE; PLEAT_EDEVICE;
 *           PLEAT_ESTREAM; PLEAT_ENOMEM_HOST; PLEAT_EDRIVER.
 *  Failure  the block is as before.
 *  Threads  any.
 *  Blocks   never. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_block_record_stream(pleat instance, int device,
                                                                pleat_devptr ptr, void *stream);

/** Find the live block that contains an address.
 *
 *  Params   ptr  any address inside the block.
 *  Returns  PLEAT_OK; PLEAT_EINVAL (ptr is 0); PLEAT_EFOREIGN; PLEAT_EDEVICE.
 *  Threads  any. The call may or may not find a block that another thread frees meanwhile.
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

/** Free a block of pleat_malloc; NULL is fine.
 *
 *  Units    bytes: as allocated; ignored, since the block knows its size.
 *  Failure  in pleat_last_error: see pleat_block_free.
 *  Threads  any.
 *  Blocks   as pleat_block_free. */
PLEAT_API void pleat_free(void *ptr, size_t bytes, int device, void *stream);

/** Give free memory of a device back to the driver.
 *
 *  Units    bytes.
 *  Params   keep_bytes  stop when no more than this is resident; 0 = give back all free memory.
 *           wait  wait for the last uses of pending memory, at most `wait_ms`, with wait_ms:0 a
 *                 millisecond.
 *           released [out] bytes given back; may be NULL.
 *  Returns  PLEAT_OK; PLEAT_EDEVICE; PLEAT_EPENDING (some uses were not over in time: all other
 *           free memory has been given back); PLEAT_ENOMEM_HOST; PLEAT_EDRIVER; PLEAT_EPOISONED.
 *  Failure  live blocks are as before; some memory may have been given back.
 *  Threads  any. With `wait` a cancellation point, before the call changes anything.
 *  Blocks   on unmap and release; on the GPU only if `wait`. Beside threads that make captures, the
 *           call waits for a moment in which no thread can just have begun one: 2 ms, with `wait`
 *           up to 400 ms of `wait_ms`. Then the call goes on, as a synchronisation of the device
 *           would. While a capture is under way, the call does not wait for all work:
 *           PLEAT_EPENDING, and the text names the capture. Opens no device. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_device_trim(pleat instance, int device,
                                                        uint64_t keep_bytes, bool wait,
                                                        uint64_t *released);

/** Compact a device at a safe point: move live memory out of partly used chunks, and give the
 *  emptied chunks back to the driver. Every pointer stays valid, also in captured graphs, and every
 *  live byte stays. The caller promises: until the call returns, nobody submits, captures or
 *  launches work on the device, because compaction copies memory from one physical place to
 *  another. The call waits for earlier work. Holders of the physical memory itself (memory
 *  registered for RDMA) do not follow the move. Memory that other processes have open
 *  (pleat_share.h) is not moved.
 *
 *  Units    bytes and counts: pleat_compaction in pleat_types.h.
 *  Returns  PLEAT_OK; PLEAT_EINVAL; PLEAT_EDEVICE; PLEAT_ENOTSUP (the allocator at work is a
 *           classic cache, or the driver cannot copy); PLEAT_ECAPTURE (a capture is under way; the
 *           text names the capture); PLEAT_EPENDING (work is not over in time); PLEAT_ENOSPACE_VA;
 *           PLEAT_ENOMEM_HOST; PLEAT_EDRIVER; PLEAT_EBUSY (mappings are observed: pleat_mapping.h);
 *           PLEAT_EPOISONED (undoing a step failed, too: unmapped memory keeps its contents, and no
 *           request is served until a later compaction has mapped that memory).
 *  Failure  live blocks and their contents are as before, and so is the chunk of the failing step;
 *           earlier steps stay done.
 *  Threads  any; one compaction of a device at a time. Other threads may allocate and free
 *           meanwhile, if they submit no work. May be called from within a callback.
 *  Blocks   on all work of the device, at most 30 times wait_ms or a second, the longer (with a
 *           driver before 555, without a limit). Then on create, map, copies, unmap and
 *           release. Other threads go on: these calls hold no lock. Opens no device. */
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

/** Limit the bytes that the instance may hold resident on a device, mapped or idle.
 *
 *  Units    bytes; 0 = no limit.
 *  Returns  PLEAT_OK; PLEAT_ENOMEM_DEVICE (live blocks need more); all results of opening the
 *           device; PLEAT_EPENDING; PLEAT_EDRIVER.
 *  Failure  the limit is as before.
 *  Threads  any.
 *  Blocks   on unmap and release of free memory over the limit; on the GPU at most `wait_ms`. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_device_set_limit(pleat instance, int device,
                                                             uint64_t bytes);

/** Tell how much memory of a device is free by the driver's count (cuMemGetInfo), whatever the
 *  limit.
 *
 *  Units    bytes.
 *  Params   free_bytes [out] held by nobody: memory cached by this instance is not free.
 *           total_bytes [out] of the device.
 *  Returns  PLEAT_OK; PLEAT_EINVAL; PLEAT_EDRIVER; all results of opening the device.
 *  Threads  any.
 *  Blocks   on one driver call. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_device_memory_info(pleat instance, int device,
                                                               uint64_t *free_bytes,
                                                               uint64_t *total_bytes);

/** Describe a device: GPU, driver, allocator, and why the configured allocator is not at work.
 *
 *  Returns  PLEAT_OK; PLEAT_EINVAL; all results of opening the device.
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
/** The former name, for source that has it; the library has no such symbol. */
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

/** Set every peak of a device's statistics to the current value.
 *
 *  Returns  PLEAT_OK; PLEAT_EDEVICE.
 *  Threads  any.
 *  Blocks   never; opens no device. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_device_reset_peaks(pleat instance, int device);

/** Say that the graph captured on `stream` is gone: its memory may be used again once its launches
 *  are over, on any stream. A graph keeps memory that was allocated, freed or recorded as used
 *  during the capture, private pools apart.
 *
 *  Since CUDA 11.3 the driver tells when a graph, its executables and their launches are gone. Then
 *  the call is not needed, and releases nothing while the graph lives. With older drivers the call
 *  means the oldest capture on the stream. So older drivers need one call for each graph, in the
 *  order of the captures.
 *
 *  So far the rules of allocator:pleat. The allocators cuda-async and unpooled keep the memory
 *  until this call, and then give it back at once: the graph must be gone before. The other classic
 *  caches keep only memory that was recorded on the captured stream, as their originals do.
 *
 *  Params   stream  any stream that took part; it may have been destroyed since.
 *  Returns  PLEAT_OK; PLEAT_ECAPTURE (the stream is still being captured); PLEAT_EDRIVER (the
 *           driver could not tell); all results of opening the device; PLEAT_ESTREAM with classic
 *           caches.
 *  Failure  no memory was released.
 *  Threads  any.
 *  Blocks   never. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_device_release_capture(pleat instance, int device,
                                                                   void *stream);

/** Say that a stream is about to be destroyed: pleat fences earlier frees on the stream now, and
 *  never uses the handle again. Programs that destroy streams should make this call. Otherwise the
 *  last frees on a stream may wait for a point behind all work of the device.
 *
 *  Params   stream  alive; nothing is submitted to it any more. The default streams stay. The call
 *                   also tells peer devices whose blocks the stream used.
 *  Returns  PLEAT_OK; PLEAT_ESTREAM; PLEAT_EDEVICE; PLEAT_EDRIVER (not a stream). A device never
 *           used is not opened.
 *  Failure  as before.
 *  Owner    the stream stays the caller's. Its live blocks may be freed on any other stream.
 *  Threads  any; no other call names the stream meanwhile.
 *  Blocks   never on the GPU; asks whether the stream is being captured, and records an event. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_stream_retire(pleat instance, int device, void *stream);

/** Run every walker of every device in use: recompute all invariants from ground truth.
 *
 *  Params   broken [out] 0, or the number of the first broken invariant.
 *  Returns  PLEAT_OK, also when an invariant is broken; PLEAT_EINVAL.
 *  Threads  any; holds each allocator's lock throughout its walk: too slow for every step.
 *  Blocks   never on the GPU. Cost grows with the number of blocks. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_check(pleat instance, int *broken);

/** Set the callback that is asked for memory when memory is short; NULL = none.
 *
 *  Params   context  handed to every call of `fn`; stays the caller's.
 *  Returns  PLEAT_OK.
 *  Threads  any; a call of the earlier callback may still be running on another thread. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_set_pressure_callback(pleat instance,
                                                                  pleat_pressure_fn fn,
                                                                  void *context);

/** Set the callback that is told before a request fails for lack of device memory; NULL = none.
 *
 *  Params   context  handed to every call of `fn`; stays the caller's.
 *  Returns  PLEAT_OK.
 *  Threads  any; a call of the earlier callback may still be running on another thread. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_set_oom_callback(pleat instance, pleat_oom_fn fn,
                                                             void *context);

/** Describe the calling thread's last failure; a successful call leaves the last failure as it is.
 *
 *  Returns  never NULL; status PLEAT_OK before the first failure. Members that this library does
 *           not know yet are 0.
 *  Owner    the thread; valid until its next failing call.
 *  Threads  any; each thread has its own last failure. */
PLEAT_API const pleat_error *pleat_last_error(void);

/** Describe a status in a few words.
 *
 *  Returns  a static text; "unknown status" for a number without a status.
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
