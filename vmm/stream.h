/* stream.h - who a stream is, fences on it, and whether it is being captured.
 *
 * A stream is known by its id, since destroyed handles are recycled with work pending; where the
 * driver has no ids by handle, and the per-thread default stream by its thread. While a stream is
 * captured drivers do not tell its id: it is the one last seen under its handle, if none was a new
 * one, which gets its id when it is next seen at rest. So a handle that is recycled unseen and then
 * captured counts as the stream before, until it is seen at rest. pl_stream objects live until they
 * are released, or the device is closed. All functions may be called from any thread, whatever
 * context is current in it, and take the vmm lock (rank 40) themselves.
 *
 * With peers a stream of a device that may use the mappings is a stream here, too, by its handle;
 * the default streams are always the device's own.
 *
 * Drivers promise nothing for the handle of a stream that was destroyed. Where they answer that it
 * is none, as many do and the simulator does, what follows holds; others may crash.
 *
 * A stream is out of reach when its handle is not its own any more (the stream was destroyed, the
 * handle perhaps recycled), or when it is the per-thread default stream of another thread. Such a
 * stream may still have work pending. Its earlier fences pass as ever; a new one is a fence of the
 * whole device, which no query and no order can see pass: only a wait, or another synchronisation
 * of the device, does. What cannot be done out of reach answers ESTREAM.
 *
 * Fences are events. 64-bit stream writes could answer queries without a driver call, but every
 * ordering needs an event anyway, so there are none. */
#ifndef PLEAT_VMM_STREAM_H
#define PLEAT_VMM_STREAM_H

#include "vmm/device.h"

/* segments knows no CUDA: handles are void * there. */
typedef struct pl_fence pl_fence; /* a pooled event, recorded once */

/** Find or make the stream of `handle`. It is held until pl_stream_put.
 *
 *  Params   handle a stream handle of the driver; NULL or 1 = the legacy default stream, 2 = the
 *           calling thread's default stream.
 *  Returns  PLEAT_OK; ESTREAM (of another context than the primary ones of the device and, if it
 *           was opened with peers, of those that may use its mappings; not found out while it is
 *           captured); ENOMEM_HOST; EDRIVER (not a stream).
 *  Failure  as before; a capture is not disturbed, whoever's it is.
 *  Owner    the device.
 *  Threads  any; without a lock when the stream is known.
 *  Blocks   on four short calls (one while it is captured), and none for 0, 1 and 2 once known; a
 *           few more at first sight, or when no context is current. */
pleat_status pl_stream_get(pl_device *dev, void *handle, pl_stream **out);

/** Let go of a stream that pl_stream_get has found: it may be given up from now on if nobody refers
 *  to it (pl_stream_try_release). Who never does keeps it until it is gone.
 *
 *  Threads  any; takes no lock. */
void pl_stream_put(pl_stream *stream);

/** Does `st`, an answer of pl_stream_get or pl_stream_capture, the calling thread's last one, say
 *  that the handle is no stream of the device (any more)? Otherwise it says nothing of the stream.
 */
bool pl_stream_is_none(pleat_status st);

/** The ordinary stream that was last seen under `handle`, or NULL. It is held until pl_stream_put.
 *  Makes no driver call. */
pl_stream *pl_stream_known(const pl_device *dev, const void *handle);

unsigned pl_stream_index(const pl_stream *stream); /* 0, 1, 2... in order of first sight */
uint64_t pl_stream_id(const pl_stream *stream);    /* the handle, while it has no id */
void *pl_stream_handle(const pl_stream *stream);   /* as first given */
bool pl_stream_is_legacy(const pl_stream *stream); /* the default stream of all threads */
unsigned pl_stream_count(const pl_device *dev);
pl_stream *pl_stream_at(const pl_device *dev, unsigned index); /* NULL beyond the count */

/** Is it being captured right now? The legacy stream never is.
 *
 *  Params   stream: its handle is known to be its own, as pl_stream_get has just found.
 *  Returns  PLEAT_OK; ESTREAM (destroyed, or the per-thread stream of another thread); EDRIVER.
 *  Blocks   on one driver call; none for the legacy stream; a few for a per-thread one, or when
 *           no context is current. */
pleat_status pl_stream_is_capturing(pl_stream *stream, bool *out);

/* A capture sequence, as a stream that takes part in it sees it. */
typedef struct pl_capture_info {
    bool is_capturing;
    uint64_t id; /* the same for all streams that were forked into the capture; 0 = not told */
    void *graph; /* what is being made, for pl_graph_watch_begin; NULL = not told, or is_broken */
    bool is_broken; /* the driver has invalidated it: no graph will come of it */
} pl_capture_info;

/** Is it being captured right now, and in which capture? As pl_stream_is_capturing; where the
 *  driver does not tell, id and graph are 0.
 *
 *  Params   stream: its handle is known to be its own, as pl_stream_get has just found.
 *  Returns  PLEAT_OK; ESTREAM (destroyed, or the per-thread stream of another thread); EDRIVER.
 *  Blocks   on one driver call; none for the legacy stream; a few for a per-thread one, or when
 *           no context is current. */
pleat_status pl_stream_capture(pl_stream *stream, pl_capture_info *out);

/** Is it known to be gone: was its handle seen to be another stream's, was it retired, has its
 *  thread ended? Asks nobody. */
bool pl_stream_is_gone(const pl_stream *stream);

/** Its owner is about to destroy it, or has: nobody finds it any more, and who comes with its
 *  handle is another stream. Makes no driver call; the legacy stream stays. */
void pl_stream_retire(pl_stream *stream);

/** Give up a stream that is gone: the object is used again for another one. Makes no driver call.
 *
 *  Owner    the caller is the last who holds it. */
void pl_stream_release(pl_stream *stream);

/** Give up one that may be alive: when it is next seen it is a new one. Makes no driver call.
 *
 *  Returns  false: nothing has changed; somebody holds it, it is a default stream, or one that was
 *           seen in captures only.
 *  Owner    the caller, except those who hold it, is the last who refers to it. */
bool pl_stream_try_release(pl_stream *stream);

/** Is it being captured right now, whichever stream it is? One that is gone does not answer for who
 *  has its handle now.
 *
 *  Returns  PLEAT_OK; ESTREAM (out of reach); EDRIVER.
 *  Blocks   on a few driver calls; none for the legacy stream. */
pleat_status pl_stream_is_still_capturing(pl_stream *stream, bool *out);

/** Record a point on the stream's timeline. Never blocks on the GPU.
 *
 *  Returns  PLEAT_OK; ENOMEM_HOST; ECAPTURE (the stream is being captured, or it is the legacy
 *           stream and recording would break another's capture); ESTREAM (out of reach, and the
 *           driver cannot synchronise a device); EDRIVER.
 *  Failure  as before; a capture is not disturbed.
 *  Owner    the caller, until pl_fence_return. */
pleat_status pl_fence_record(pl_stream *stream, pl_fence **out);

/** Record a point behind all work of the device's context, and of those of peers whose streams it
 *  knows: that of every stream, destroyed ones too. Never blocks on the GPU. It can be queried and
 *  waited for, and is no stream's.
 *
 *  The driver lets it break every capture under way in the context. One of a blocking stream is
 *  found by asking first, and left alone; that there is none of other streams is the caller's word,
 *  of peers what is noted (pl_device_note_capture).
 *
 *  Returns  PLEAT_OK; ENOTSUP (the driver is older than CUDA 12.5); ENOMEM_HOST; ECAPTURE (there
 *           is one, or was); EDRIVER.
 *  Failure  as before.
 *  Owner    the caller, until pl_fence_return. */
pleat_status pl_fence_record_context(pl_device *dev, pl_fence **out);

/** Did its event fail? Then it will not pass: return it. */
bool pl_fence_is_spoiled(const pl_fence *fence);

/** Has it passed? One query in relaxed capture mode, none when that is known. Never blocks on the
 *  GPU. A fence of a stream that was destroyed passes when its event says so.
 *
 *  Returns  PLEAT_OK; EDRIVER (the fence will not pass; return it).
 *  Threads  any, also several on one fence. */
pleat_status pl_fence_query(pl_fence *fence, bool *passed);

/** Query many fences of one device, at the price of entering once.
 *
 *  Params   passed [out] n elements, false for fences whose query failed.
 *  Returns  PLEAT_OK; EDRIVER: the first failure; the others were queried all the same. */
pleat_status pl_fence_query_many(pl_fence *const *fences, size_t n, bool *passed);

/** Block the host until it passes, at most `wait_ms`; counts one host_sync unless it has passed
 *  or wait_ms is 0.
 *
 *  Units    milliseconds; UINT32_MAX = for ever, in one call; else queries with growing pauses.
 *           On the simulator, whose time stands still while it is only asked, any wait but 0
 *           synchronises. So does a fence of a stream out of reach, with the whole device.
 *  Returns  PLEAT_OK = passed; EPENDING; ECAPTURE (whole device, and a capture is under way);
 *           EDRIVER.
 *  Failure  the fence is as before.
 *  Blocks   on the GPU. */
pleat_status pl_fence_wait(pl_fence *fence, uint32_t wait_ms);

/** Make `later` wait for the fence on the GPU; the host does not block. Counts one stream_wait,
 *  unless there is nothing to wait for: same stream, or known to have passed.
 *
 *  Returns  PLEAT_OK; ECAPTURE (`later` is being captured); ESTREAM (either is out of reach);
 *           EDRIVER.
 *  Failure  as before; a capture is not disturbed. */
pleat_status pl_fence_order(pl_stream *later, pl_fence *fence);

pl_stream *pl_fence_stream(const pl_fence *fence);

/** Tell whether a fence stands for the whole device, its stream being out of reach: only a wait or
 *  a synchronisation passes it.
 *
 *  Threads  any. */
bool pl_fence_is_whole_device(const pl_fence *fence);

/** Give the fence to `n` more callers: each returns it, and all may query and order it at once. */
void pl_fence_share(pl_fence *fence, uint32_t n);

/** Give the fence back, passed or not; with its last share its event goes to the pool. NULL is
 *  fine. */
void pl_fence_return(pl_fence *fence);

/** Block until all work submitted to the stream so far is over. Counts one host_sync.
 *
 *  Returns  PLEAT_OK; ECAPTURE; ESTREAM; EDRIVER.
 *  Blocks   on the GPU. */
pleat_status pl_stream_synchronize(pl_stream *stream);

#endif
