/* stream.h - identity, fences and capture state of streams.
 *
 * A stream is known by its id, since drivers recycle destroyed handles while work is pending.
 * Without the driver's ids, a stream is known by its handle. The per-thread default stream is known
 * by its thread. Drivers do not tell the id of a captured stream, so it counts as the stream last
 * seen under its handle. If no stream was seen, the captured stream is new, and gets its id at its
 * next sight at rest. So a handle that is recycled unseen and then captured counts as the previous
 * stream until a sight at rest. pl_stream objects live until released or until the device is
 * closed. All functions may be called from any thread, whatever context is current in it, and take
 * the vmm lock (rank 40) themselves.
 *
 * With peers, a stream of any device that may use the mappings is accepted by its handle. The
 * default streams are always the device's own.
 *
 * Drivers promise nothing for the handle of a destroyed stream. Many drivers, and the simulator,
 * answer that the handle is no stream. The following holds for these drivers. Others may crash.
 *
 * A destroyed stream is out of reach, since its handle may belong to a new stream. So is the
 * per-thread default stream of another thread. Such a stream may still have work pending. Its
 * earlier fences pass as usual. A new fence covers the whole device. Only a wait or another
 * synchronisation of the device passes it, not a query or an order. What cannot be done out of
 * reach answers ESTREAM.
 *
 * Fences are events. 64-bit stream writes could answer queries without a driver call, but ordering
 * needs an event anyway, so pleat does not use the writes. */
#ifndef PLEAT_VMM_STREAM_H
#define PLEAT_VMM_STREAM_H

#include "vmm/device.h"

/* segments knows no CUDA and holds handles as void *. */
typedef struct pl_fence pl_fence; /* a pooled event, recorded once */

/** Find or make the stream of `handle` and hold it until pl_stream_put.
 *
 *  Params   handle a stream handle of the driver; NULL or 1 = the legacy default stream, 2 = the
 *           calling thread's default stream.
 *  Returns  PLEAT_OK; ESTREAM (its context is neither the primary one of the device, nor a green
 *           one of it, nor with peers one of a device that may use the mappings; not noticed while
 *           it is captured; or it is of a green context and the driver older than CUDA 13, or a
 *           captured default stream of a green context);
 *           ENOMEM_HOST; EDRIVER (not a stream).
 *  Failure  as before; no capture is disturbed.
 *  Owner    the device.
 *  Threads  any; takes no lock when the stream is known.
 *  Blocks   on four short driver calls (one while it is captured), none for 0 and 1 once known, one
 *           for 2; a few more at first sight, while a green context is current, or when no context
 *           is. */
pleat_status pl_stream_get(pl_device *dev, void *handle, pl_stream **out);

/** The legacy default stream, which is never put. NULL before pl_stream_get has first found the
 *  stream, and once handle 0 may mean another stream (pl_green_notices).
 *
 *  Threads  any; takes no lock and makes no driver call. */
pl_stream *pl_stream_legacy(const pl_device *dev);

/** Is a green context of the device current in the calling thread, so that handle 0 means the green
 *  default stream? If so, later calls that name handle 0 ask for its meaning.
 *
 *  Threads  any; not inside a scope.
 *  Blocks   on one driver call; on five more while no primary context is current. */
bool pl_green_notices(pl_device *dev);
/* Was one ever noticed? Makes no driver call. */
bool pl_green_is_asked_about(const pl_device *dev);

/* A capture sequence, as reported by a stream in the capture. */
typedef struct pl_capture_info {
    bool is_asked; /* the driver was asked; else the rest is unset */
    bool is_capturing;
    bool is_broken; /* the driver has invalidated the capture, so no graph will come */
    uint64_t id;    /* shared by all streams forked into the capture; 0 = not told */
    void *graph;    /* for pl_graph_watch_begin; NULL = not told, or is_broken */
} pl_capture_info;

/** Like pl_stream_get, and also returns the driver's answer about a capture, so that nobody needs
 *  to ask again in this call.
 *
 *  Params   info [out] is_asked is always written, the rest if it is true. */
pleat_status pl_stream_get_asked(pl_device *dev, void *handle, pl_capture_info *info,
                                 pl_stream **out);

/** Like pl_stream_get, without asking which stream has the handle now, where asking can wait. The
 *  answer is then the stream last seen under the handle. That stream may be gone, and its handle
 *  in use by a newer stream. For a caller that notes an act on the stream without relying on the
 *  stream's order. Memory freed on a guessed stream is reused only in a call that got the stream
 *  from pl_stream_get, or behind a fence. If a guessed stream has lost its handle, its fences are
 *  whole-device fences (pl_fence_is_whole_device), and a fence of the context stands behind the
 *  guessed and the actual stream.
 *
 *  A stream of another thread (pl_stream_is_anothers) is always guessed, unless memory is open to
 *  peers. If it has no id yet, nobody will know whether its next id is that of the stream meant
 *  here. So with the next id the stream counts as gone, and a new one has the handle.
 *
 *  Returns  as pl_stream_get; the stream of a foreign context is not noticed if its handle was that
 *           of a known stream.
 *  Blocks   on no driver call where it may guess: the stream has an id, was last seen at rest, and
 *           memory is not open to peers. Else as pl_stream_get. */
pleat_status pl_stream_guess(pl_device *dev, void *handle, pl_stream **out);

/** Let go of a stream that pl_stream_get found. If nothing else refers to the stream, the caller
 *  may then give it up (pl_stream_try_release). A stream never put is kept until gone.
 *
 *  Threads  any; takes no lock. */
void pl_stream_put(pl_stream *stream);

/** Does `st`, the calling thread's last answer of pl_stream_get or pl_stream_capture, say that the
 *  handle is no stream of the device (any more)? If not, `st` says nothing about the stream. */
bool pl_stream_is_none(pleat_status st);

/** Hold the ordinary stream that was last seen under `handle`, until pl_stream_put; NULL if none.
 *  Makes no driver call. */
pl_stream *pl_stream_known(const pl_device *dev, const void *handle);
/** The same, if the device trusts the stream's handle, else NULL. */
pl_stream *pl_stream_known_told(const pl_device *dev, const void *handle);

unsigned pl_stream_index(const pl_stream *stream); /* 0, 1, 2... in order of first sight */
uint64_t pl_stream_id(const pl_stream *stream);    /* the handle, while it has no id */
void *pl_stream_handle(const pl_stream *stream);   /* as first given */
bool pl_stream_is_legacy(const pl_stream *stream); /* the default stream of all threads */
bool pl_stream_is_idle(const pl_stream *stream);   /* the device's own: see idle.h */
bool pl_stream_is_told(const pl_stream *stream);   /* trusted by its handle until retired */
/** Is it another thread that works on the stream, as far as calls showed: that last got the stream
 *  from pl_stream_get, by asking the driver? If so, the other thread may begin a capture of the
 *  stream at any moment. The driver breaks the capture of a stream whose id it is asked for. So the
 *  calling thread does not ask, and leaves what needs the answer to a call of the other thread.
 *
 *  Threads  any; makes no driver call. */
bool pl_stream_is_anothers(const pl_stream *stream);
/* The calling thread may ask the driver about the stream: nobody captures the stream meanwhile. */
void pl_stream_take_over(pl_stream *stream);
/** Trust the stream's handle no more, where the device trusts handles: the stream may be destroyed
 *  without a word. Later calls that name the handle ask the driver again. */
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

/** Is the stream being captured right now, and in which capture sequence? Like
 *  pl_stream_is_capturing; where the driver does not tell, id and graph are 0.
 *
 *  Params   stream: one that pl_stream_get has just found, so its handle is still its own.
 *  Returns  PLEAT_OK; ESTREAM (destroyed, or the per-thread stream of another thread); EDRIVER.
 *  Blocks   on one driver call; none for the legacy stream; a few for a per-thread one, or when
 *           no context is current. */
pleat_status pl_stream_capture(pl_stream *stream, pl_capture_info *out);

/** Is the stream known to be gone? A stream is gone once its handle was seen on another stream, it
 *  was retired, or its thread ended. Makes no driver call. */
bool pl_stream_is_gone(const pl_stream *stream);

/** Note that the owner destroys the stream, or has. No look-up finds the stream any more, and its
 *  handle then means another stream. Makes no driver call; the legacy stream stays. */
void pl_stream_retire(pl_stream *stream);

/** Give up a stream that is gone. Its object then serves another stream. Makes no driver call.
 *
 *  Owner    the caller is the last holder. */
void pl_stream_release(pl_stream *stream);

/** Give up a stream that may be alive. When next seen, the stream counts as new. Makes no driver
 *  call.
 *
 *  Returns  false: nothing has changed. The stream is held, is a default stream, or was seen in
 *           captures only.
 *  Owner    apart from holders, only the caller refers to the stream. */
bool pl_stream_try_release(pl_stream *stream);

/** Is the stream being captured right now? Any stream may be asked about. A stream that is gone
 *  gives no answer for the new owner of its handle.
 *
 *  Returns  PLEAT_OK; ESTREAM (out of reach); EDRIVER.
 *  Blocks   on a few driver calls; none for the legacy stream. */
pleat_status pl_stream_is_still_capturing(pl_stream *stream, bool *out);

/** Record a fence on the stream's timeline. Never blocks on the GPU.
 *
 *  Returns  PLEAT_OK; ENOMEM_HOST; ECAPTURE (the stream is being captured, also by a capture that
 *           another thread began during this call, or it is the legacy stream and recording would
 *           break another's capture); ESTREAM (out of reach, and the
 *           driver cannot synchronise a device); EDRIVER.
 *  Failure  as before; a capture is not disturbed.
 *  Owner    the caller, until pl_fence_return. */
pleat_status pl_fence_record(pl_stream *stream, pl_fence **out);

/** Record a fence behind all work of every stream, including destroyed streams, in the device's
 *  context and in the contexts of peers with known streams. Never blocks on the GPU. The fence
 *  belongs to no stream, and can be queried and waited for.
 *
 *  Recording breaks every capture under way in the context. A capture of a blocking stream is found
 *  by asking first, and spared. The caller guarantees that no other stream is captured. For peers,
 *  pl_device_note_capture tells.
 *
 *  Returns  PLEAT_OK; ENOTSUP (the driver is older than CUDA 12.5); ENOMEM_HOST; ECAPTURE (a
 *           capture was found or noted); EDRIVER.
 *  Failure  as before.
 *  Owner    the caller, until pl_fence_return. */
pleat_status pl_fence_record_context(pl_device *dev, pl_fence **out);

/** Did the fence's event fail? A spoiled fence will not pass. Return the fence. */
bool pl_fence_is_spoiled(const pl_fence *fence);

/** Has the fence passed? Costs one query in relaxed capture mode, or none for a fence already
 *  passed. Never blocks on the GPU. The fence of a destroyed stream passes when its event passes.
 *
 *  Returns  PLEAT_OK; EDRIVER, or ECAPTURE (the event is of a capture that began and ended while it
 *           was recorded): the fence will not pass; return it.
 *  Threads  any, also several on one fence. */
pleat_status pl_fence_query(pl_fence *fence, bool *passed);

/** Query many fences of one device, with a single entry of the device.
 *
 *  Params   passed [out] n elements, false for fences whose query failed.
 *  Returns  PLEAT_OK; EDRIVER, ECAPTURE: the first failure; the others were queried all the
 *           same. */
pleat_status pl_fence_query_many(pl_fence *const *fences, size_t n, bool *passed);

/** Block the host until the fence passes, at most `wait_ms`. Counts one host_sync unless the fence
 *  has passed or wait_ms is 0.
 *
 *  Units    milliseconds; UINT32_MAX = for ever, in one call; else queries with growing pauses. The
 *           simulator's clock stands still during queries, so there any wait except 0 synchronises.
 *           A fence of a stream out of reach synchronises with the whole device.
 *  Returns  PLEAT_OK = passed; EPENDING; ECAPTURE (whole device, and a capture is under way; or as
 *           pl_fence_query); EDRIVER.
 *  Failure  the fence is as before.
 *  Blocks   on the GPU. */
pleat_status pl_fence_wait(pl_fence *fence, uint32_t wait_ms);

/** Block the host until one of n fences of one device passes, at most `wait_ms`, as pl_fence_wait
 *  does for one. So a stream that hangs holds up nobody who can go on without it.
 *
 *  Params   fences: n >= 1, or one of the whole device; passed [out] n elements: which have passed.
 *  Returns  PLEAT_OK: one or more have passed; EPENDING; EDRIVER: none has, and one failed.
 *  Failure  the fences are as before.
 *  Blocks   on the GPU. */
pleat_status pl_fence_wait_any(pl_fence *const *fences, size_t n, uint32_t wait_ms, bool *passed);

/** Make `later` wait for the fence on the GPU; the host does not block. Counts one stream_wait,
 *  unless the wait is needless, on the same stream or for a passed fence.
 *
 *  Returns  PLEAT_OK; ECAPTURE (`later` is being captured); ESTREAM (either is out of reach, or the
 *           fence will not pass: see pl_fence_query); EDRIVER.
 *  Failure  as before; a capture is not disturbed. */
pleat_status pl_fence_order(pl_stream *later, pl_fence *fence);

pl_stream *pl_fence_stream(const pl_fence *fence);

/** Does a fence stand for the whole device because its stream is out of reach? Only a wait or a
 *  synchronisation passes a whole-device fence.
 *
 *  Threads  any. */
bool pl_fence_is_whole_device(const pl_fence *fence);

/** Give the fence to `n` more callers. Every caller returns the fence, and all may query and order
 *  at once. */
void pl_fence_share(pl_fence *fence, uint32_t n);

/** Give the fence back, passed or not. With the last share the fence's event goes to the pool. NULL
 *  is fine. */
void pl_fence_return(pl_fence *fence);

/** Block until all work submitted to the stream so far is over. Counts one host_sync.
 *
 *  Returns  PLEAT_OK; ECAPTURE; ESTREAM; EDRIVER.
 *  Blocks   on the GPU. */
pleat_status pl_stream_synchronize(pl_stream *stream);

#endif
