/* stream.h - identity, fences and capture state of streams.
 *
 * A stream is known by its id, since drivers recycle destroyed handles while work is pending. Where
 * the driver has no ids it is known by its handle; the per-thread default stream is known by its
 * thread. Drivers do not tell the id of a captured stream: it counts as the stream last seen under
 * its handle. If none was, it is a new one, which gets its id when it is next seen at rest. So a
 * handle that is recycled unseen and then captured counts as the previous stream until it is seen
 * at rest. pl_stream objects live until they are released or the device is closed. All functions
 * may be called from any thread, whatever context is current in it, and take the vmm lock (rank 40)
 * themselves.
 *
 * With peers, a stream of any device that may use the mappings is accepted, by its handle; the
 * default streams are always the device's own.
 *
 * Drivers promise nothing for the handle of a destroyed stream. Many, and the simulator, answer
 * that it is no stream; what follows holds for these. Others may crash.
 *
 * A stream is out of reach when it was destroyed (its handle may belong to another stream), or when
 * it is the per-thread default stream of another thread. Such a stream may still have work pending.
 * Its earlier fences pass as usual. A new one is a fence of the whole device, which only a wait or
 * another synchronisation of the device passes; no query or order does. What cannot be done out of
 * reach answers ESTREAM.
 *
 * Fences are events. 64-bit stream writes could answer queries without a driver call, but every
 * ordering needs an event anyway, so pleat does not use them. */
#ifndef PLEAT_VMM_STREAM_H
#define PLEAT_VMM_STREAM_H

#include "vmm/device.h"

/* segments knows no CUDA; it holds handles as void *. */
typedef struct pl_fence pl_fence; /* a pooled event, recorded once */

/** Find or make the stream of `handle` and hold it until pl_stream_put.
 *
 *  Params   handle a stream handle of the driver; NULL or 1 = the legacy default stream, 2 = the
 *           calling thread's default stream.
 *  Returns  PLEAT_OK; ESTREAM (its context is neither the primary one of the device, nor a green
 *           one of it, nor with peers one of a device that may use the mappings; not noticed while
 *           it is captured; or it is of a green context and the driver older than CUDA 13);
 *           ENOMEM_HOST; EDRIVER (not a stream).
 *  Failure  as before; no capture is disturbed.
 *  Owner    the device.
 *  Threads  any; takes no lock when the stream is known.
 *  Blocks   on four short driver calls (one while it is captured), none for 0, 1 and 2 once known;
 *           a few more at first sight, or when no context is current. */
pleat_status pl_stream_get(pl_device *dev, void *handle, pl_stream **out);

/** The legacy default stream, which is never put; NULL before pl_stream_get has first found it, and
 *  once handle 0 may mean another stream (pl_green_notices).
 *
 *  Threads  any; takes no lock and makes no driver call. */
pl_stream *pl_stream_legacy(const pl_device *dev);

/** Is a green context of the device current in the calling thread, so that handle 0 means its
 *  default stream? If so, each later call that names handle 0 asks that.
 *
 *  Threads  any; not inside a scope.
 *  Blocks   on one driver call; on five more while no primary context is current. */
bool pl_green_notices(pl_device *dev);
/* Was one ever noticed? Makes no driver call. */
bool pl_green_is_asked_about(const pl_device *dev);

/* A capture sequence, as reported by a stream that takes part in it. */
typedef struct pl_capture_info {
    bool is_asked; /* the driver was asked; else the rest says nothing */
    bool is_capturing;
    bool is_broken; /* the driver has invalidated the capture: it will yield no graph */
    uint64_t id;    /* one for all streams that were forked into the capture; 0 = not told */
    void *graph;    /* for pl_graph_watch_begin; NULL = not told, or is_broken */
} pl_capture_info;

/** Like pl_stream_get; and tell what the driver said about a capture on the way, so that nobody
 *  needs to ask it again in this call.
 *
 *  Params   info [out] is_asked is always written, the rest if it is true. */
pleat_status pl_stream_get_asked(pl_device *dev, void *handle, pl_capture_info *info,
                                 pl_stream **out);

/** Like pl_stream_get, without asking which stream has the handle now, where that can wait:
 *  the answer is then the stream last seen under it, which may be gone and have left its handle to
 *  another one. For a caller that notes what was done on the stream, but takes no advantage of its
 *  order: what was freed on a guessed stream is used again only in a call that got that stream from
 *  pl_stream_get, or behind a fence. Fences of a stream that has lost its handle are none of that
 *  stream (pl_fence_is_whole_device); one of the context stands behind both.
 *
 *  Returns  as pl_stream_get; the stream of a foreign context is not noticed if its handle was that
 *           of a known stream.
 *  Blocks   on no driver call where it may guess: the stream has an id, was last seen at rest, and
 *           memory is not open to peers. Else as pl_stream_get. */
pleat_status pl_stream_guess(pl_device *dev, void *handle, pl_stream **out);

/** Let go of a stream that pl_stream_get found. If nothing else refers to it, it may then be given
 *  up (pl_stream_try_release). A stream that is never put is kept until it is gone.
 *
 *  Threads  any; takes no lock. */
void pl_stream_put(pl_stream *stream);

/** Does `st`, the calling thread's last answer of pl_stream_get or pl_stream_capture, say that the
 *  handle is no stream of the device (any more)? If not, `st` says nothing about the stream. */
bool pl_stream_is_none(pleat_status st);

/** Hold the ordinary stream that was last seen under `handle`, until pl_stream_put; NULL if none.
 *  Makes no driver call. */
pl_stream *pl_stream_known(const pl_device *dev, const void *handle);
/** The same, if the device trusts the stream's handle; else NULL. */
pl_stream *pl_stream_known_told(const pl_device *dev, const void *handle);

unsigned pl_stream_index(const pl_stream *stream); /* 0, 1, 2... in order of first sight */
uint64_t pl_stream_id(const pl_stream *stream);    /* the handle, while it has no id */
void *pl_stream_handle(const pl_stream *stream);   /* as first given */
bool pl_stream_is_legacy(const pl_stream *stream); /* the default stream of all threads */
bool pl_stream_is_idle(const pl_stream *stream);   /* the device's own: see idle.h */
bool pl_stream_is_told(const pl_stream *stream);   /* its handle means it until it is retired */
/** Trust the stream's handle no more, where the device trusts handles: the stream may be destroyed
 *  without a word. Each call that names the handle asks the driver again. */
void pl_stream_doubt(pl_stream *stream);
unsigned pl_stream_count(const pl_device *dev);
pl_stream *pl_stream_at(const pl_device *dev, unsigned index); /* NULL beyond the count */

/** Is it being captured right now? The legacy stream never is.
 *
 *  Params   stream: one that pl_stream_get has just found, so its handle is still its own.
 *  Returns  PLEAT_OK; ESTREAM (destroyed, or the per-thread stream of another thread); EDRIVER.
 *  Blocks   on one driver call; none for the legacy stream; a few for a per-thread one, or when
 *           no context is current. */
pleat_status pl_stream_is_capturing(pl_stream *stream, bool *out);

/** Is the stream being captured right now, and in which capture? Like pl_stream_is_capturing; where
 *  the driver does not tell, id and graph are 0.
 *
 *  Params   stream: one that pl_stream_get has just found, so its handle is still its own.
 *  Returns  PLEAT_OK; ESTREAM (destroyed, or the per-thread stream of another thread); EDRIVER.
 *  Blocks   on one driver call; none for the legacy stream; a few for a per-thread one, or when
 *           no context is current. */
pleat_status pl_stream_capture(pl_stream *stream, pl_capture_info *out);

/** Is the stream known to be gone? That is: its handle was seen to belong to another stream, it was
 *  retired, or its thread ended. Makes no driver call. */
bool pl_stream_is_gone(const pl_stream *stream);

/** Note that the owner destroys the stream, or has. No look-up finds it any more, and its handle
 *  then means another stream. Makes no driver call; the legacy stream stays. */
void pl_stream_retire(pl_stream *stream);

/** Give up a stream that is gone: its object serves another one. Makes no driver call.
 *
 *  Owner    the caller is the last holder. */
void pl_stream_release(pl_stream *stream);

/** Give up a stream that may be alive: when next seen, it counts as new. Makes no driver call.
 *
 *  Returns  false: nothing has changed. The stream is held, is a default stream, or was seen in
 *           captures only.
 *  Owner    apart from holders, only the caller refers to the stream. */
bool pl_stream_try_release(pl_stream *stream);

/** Is the stream being captured right now? Any stream may be asked about: one that is gone does not
 *  answer for the stream that has its handle now.
 *
 *  Returns  PLEAT_OK; ESTREAM (out of reach); EDRIVER.
 *  Blocks   on a few driver calls; none for the legacy stream. */
pleat_status pl_stream_is_still_capturing(pl_stream *stream, bool *out);

/** Record a fence on the stream's timeline. Never blocks on the GPU.
 *
 *  Returns  PLEAT_OK; ENOMEM_HOST; ECAPTURE (the stream is being captured, or it is the legacy
 *           stream and recording would break another's capture); ESTREAM (out of reach, and the
 *           driver cannot synchronise a device); EDRIVER.
 *  Failure  as before; a capture is not disturbed.
 *  Owner    the caller, until pl_fence_return. */
pleat_status pl_fence_record(pl_stream *stream, pl_fence **out);

/** Record a fence behind all work of every stream, destroyed ones included, in the device's context
 *  and in the contexts of peers whose streams are known. Never blocks on the GPU. The fence belongs
 *  to no stream; it can be queried and waited for.
 *
 *  Recording breaks every capture under way in the context. A capture of a blocking stream is found
 *  by asking first, and spared. The caller guarantees that no other stream is captured; for peers,
 *  pl_device_note_capture tells.
 *
 *  Returns  PLEAT_OK; ENOTSUP (the driver is older than CUDA 12.5); ENOMEM_HOST; ECAPTURE (a
 *           capture was found or noted); EDRIVER.
 *  Failure  as before.
 *  Owner    the caller, until pl_fence_return. */
pleat_status pl_fence_record_context(pl_device *dev, pl_fence **out);

/** Did the fence's event fail? Then the fence will not pass: return it. */
bool pl_fence_is_spoiled(const pl_fence *fence);

/** Has the fence passed? Costs one query in relaxed capture mode, none once it has passed. Never
 *  blocks on the GPU. The fence of a destroyed stream passes when its event says so.
 *
 *  Returns  PLEAT_OK; EDRIVER (the fence will not pass; return it).
 *  Threads  any, also several on one fence. */
pleat_status pl_fence_query(pl_fence *fence, bool *passed);

/** Query many fences of one device, entering it once.
 *
 *  Params   passed [out] n elements, false for fences whose query failed.
 *  Returns  PLEAT_OK; EDRIVER: the first failure; the others were queried all the same. */
pleat_status pl_fence_query_many(pl_fence *const *fences, size_t n, bool *passed);

/** Block the host until the fence passes, at most `wait_ms`. Counts one host_sync unless the fence
 *  has passed or wait_ms is 0.
 *
 *  Units    milliseconds; UINT32_MAX = for ever, in one call; else queries with growing pauses. The
 *           simulator's clock stands still during queries, so there any wait except 0 synchronises.
 *           A fence of a stream out of reach synchronises with the whole device.
 *  Returns  PLEAT_OK = passed; EPENDING; ECAPTURE (whole device, and a capture is under way);
 *           EDRIVER.
 *  Failure  the fence is as before.
 *  Blocks   on the GPU. */
pleat_status pl_fence_wait(pl_fence *fence, uint32_t wait_ms);

/** Make `later` wait for the fence on the GPU; the host does not block. Counts one stream_wait,
 *  unless there is nothing to wait for: it is the same stream, or the fence has passed.
 *
 *  Returns  PLEAT_OK; ECAPTURE (`later` is being captured); ESTREAM (either is out of reach);
 *           EDRIVER.
 *  Failure  as before; a capture is not disturbed. */
pleat_status pl_fence_order(pl_stream *later, pl_fence *fence);

pl_stream *pl_fence_stream(const pl_fence *fence);

/** Tell whether a fence stands for the whole device because its stream is out of reach: only a wait
 *  or a synchronisation passes it.
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
