/* stream.h - who a stream is, fences on it, and whether it is being captured.
 *
 * A stream is known by its id (cuStreamGetId), since destroyed handles are recycled with work
 * pending; where the driver has no ids by handle, and the per-thread default stream by handle and
 * thread. pl_stream objects live until the device is closed.
 * All functions may be called from any thread and take the vmm lock (rank 40) themselves. */
#ifndef PLEAT_VMM_STREAM_H
#define PLEAT_VMM_STREAM_H

#include "vmm/device.h"

typedef struct pl_fence pl_fence; /* a pooled event, recorded once */

/* Find or make the stream of `handle` (NULL = the legacy default stream). One cuStreamGetId unless
 * the handle is NULL or legacy, no driver call otherwise when the stream is known.
 * Returns PLEAT_OK; ESTREAM (another context); ENOMEM_HOST; EDRIVER (not a stream). */
pleat_status pl_stream_get(pl_device *dev, void *handle, pl_stream **out);
unsigned pl_stream_index(const pl_stream *stream); /* 0, 1, 2... in order of first sight */
uint64_t pl_stream_id(const pl_stream *stream);
void *pl_stream_handle(const pl_stream *stream);
unsigned pl_stream_count(const pl_device *dev);
pl_stream *pl_stream_at(const pl_device *dev, unsigned index);
/* Is it being captured right now? One driver call. */
pleat_status pl_stream_is_capturing(pl_stream *stream, bool *out);

/* Record a point on the stream's timeline. Never blocks on the GPU.
 * Returns PLEAT_OK; ENOMEM_HOST; ECAPTURE (the stream is being captured); EDRIVER. */
pleat_status pl_fence_record(pl_stream *stream, pl_fence **out);
/* Has it passed? One query in relaxed capture mode, never blocks. A stream that was destroyed
 * counts as passed once its event says so. Returns PLEAT_OK; EDRIVER. */
pleat_status pl_fence_query(pl_fence *fence, bool *passed);
/* Block the host until it passes, at most `wait_ms` (polls with back-off; UINT32_MAX = for ever,
 * then one cuEventSynchronize). Counts one host_sync. Returns PLEAT_OK; EPENDING; EDRIVER. */
pleat_status pl_fence_wait(pl_fence *fence, uint32_t wait_ms);
/* Make `later` wait for the fence on the GPU; the host does not block. Counts one stream_wait. */
pleat_status pl_fence_order(pl_stream *later, pl_fence *fence);
pl_stream *pl_fence_stream(const pl_fence *fence);
void pl_fence_return(pl_fence *fence); /* the event goes back to the pool; NULL is fine */

/* Block until all work submitted to the stream so far is over. Counts one host_sync. */
pleat_status pl_stream_synchronize(pl_stream *stream);

#endif
