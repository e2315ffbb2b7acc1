/* capture_see.h - which capture a stream is in, as far as calls saw.
 *
 * pleat sees a capture when a call names a stream of the capture. pleat sees the end when a call
 * finds the stream at rest or in another capture. Guarded by the device lock. */
#ifndef PLEAT_SEGMENTS_CAPTURE_SEE_H
#define PLEAT_SEGMENTS_CAPTURE_SEE_H

#include "segments/pleat/space/back.h"
#include "segments/pleat/streams/capture.h"

/* Does the caller announce captures, and is none announced? */
static inline bool pl_capture_all_told(const pl_space *space)
{
    return space->options.capture == PL_CAPTURE_TOLD &&
           atomic_load(&space->captures.n_expected) == 0;
}

/* Is a capture of the stream ruled out without asking the driver? The legacy default stream is
 * never captured. */
static inline bool pl_capture_is_told(const pl_space *space, const pl_stream *stream)
{
    return __builtin_expect(pl_stream_is_legacy(stream), true) || pl_capture_all_told(space);
}

/* Is the call's stream being captured? The driver is not asked if the caller announces captures, or
 * if the driver was `asked` before. */
static inline pleat_status pl_capture_ask_about(const pl_space *space, pl_stream *stream,
                                                const pl_capture_info *asked, pl_capture_info *out)
{
    *out = (pl_capture_info){ .is_capturing = false };
    if (pl_capture_is_told(space, stream)) {
        return PLEAT_OK;
    }
    if (asked != NULL) {
        *out = *asked;
        return PLEAT_OK;
    }
    return pl_stream_capture(stream, out); /* before the operation takes the lock */
}

/* The number of the current capture of the second lane's stream; 0 = not known. */
static inline uint64_t pl_capture_number_of(const pl_space *space, const pl_lane *lane)
{
    const pl_capture *capture = pl_space_lane_at(space, pl_lane_plain(lane->number))->capture;

    return capture != NULL ? capture->number : 0;
}

/* Set lane->capture to the capture that the call found for the lane's stream. `keeper`: the pool of
 * the request, or NULL. May drop the lock for a new capture. If another thread ends the capture
 * meanwhile, *info says afterwards that the stream is at rest. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_capture_see(pl_space *space, pl_lane *lane, pl_capture_info *info,
                            struct pl_keeper *keeper);
/* The capture frees or uses a block of the pool. So the graph may use the pool, even if the capture
 * has allocated nothing in the pool. */
void pl_capture_see_use(const pl_capture *capture, struct pl_keeper *keeper);
/* The lane's stream is gone. Its capture has ended if no further stream was last seen in the
 * capture. */
void pl_capture_lose_lane(pl_space *space, pl_lane *lane);

/* ---- capture_end.c: the end ----
 *
 * Which blocks go on when a capture ends, and when its graph is gone.
 *
 * First the capture ends, in one of several ways. A stream of the capture is seen elsewhere, the
 * streams or the graph are gone, the route of the pool ends, or the owner says so. Later the graph
 * is gone, as told by the driver or by the owner (owner_ops.c). Guarded by the device lock. */

/* Let blocks go on that wait for the capture, as far as it is over and as a hold may. The rest is
 * left to pl_capture_look. Returns how many. */
size_t pl_capture_pass(pl_space *space, pl_capture *capture);
/* The capture was seen to end. Some blocks go on, if the end was all that they waited for. A broken
 * capture has no graph, so is released as well. */
void pl_capture_see_end(pl_space *space, pl_capture *capture);
/* The capture's graph is gone, and its launches are over once the context has passed over_tick.
 * Some waiting blocks go on. */
void pl_capture_release(pl_space *space, pl_capture *capture, uint64_t over_tick);

/* Release captures whose graphs are gone for the driver, and let go on what need not wait for a
 * capture any more. Looks at as many captures as a hold may, and goes on with the rest at the next
 * call. True: something went on. */
bool pl_capture_look(pl_space *space);
/* As pl_capture_look, for all captures, dropping the lock in between. Bounded, as other threads may
 * go on destroying graphs. */
void pl_capture_look_well(pl_space *space);
/* The captures linked to the pool have ended. Drops the lock. */
void pl_capture_end_of_pool(pl_space *space, const struct pl_private *pool);

#endif
