/* capture_see.h - which capture a stream is in, as far as calls saw.
 *
 * pleat sees a capture when a call names a stream of the capture. pleat sees the end when a call
 * finds the stream at rest or in another capture. Guarded by the device lock. */
#ifndef PLEAT_SEGMENTS_CAPTURE_SEE_H
#define PLEAT_SEGMENTS_CAPTURE_SEE_H

#include "segments/pleat/streams/capture.h"

/* Does the caller announce captures, and is none announced? */
static inline bool pl_capture_all_told(const pl_space *space)
{
    return space->options.capture == PL_CAPTURE_TOLD && atomic_load(&space->n_expected) == 0;
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
    return pl_stream_capture(stream, out);
}

/* The number of the current capture of the second lane's stream; 0 = not known. */
static inline uint64_t pl_capture_number_of(const pl_space *space, const pl_lane *lane)
{
    const pl_capture *capture = pl_space_lane_at(space, pl_lane_plain(lane->number))->capture;

    return capture != NULL ? capture->number : 0;
}

/* Set lane->capture to the capture that the call found for the lane's stream. `pool`: the pool of
 * the request, or NULL. May drop the lock for a new capture. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_capture_see(pl_space *space, pl_lane *lane, const pl_capture_info *info,
                            struct pl_private *pool);
/* The capture frees or uses a block of the pool. So the graph may use the pool, even if the capture
 * has allocated nothing in the pool. */
void pl_capture_see_use(const pl_capture *capture, struct pl_private *pool);
/* The lane's stream is gone. Its capture has ended if no further stream was last seen in the
 * capture. */
void pl_capture_lose_lane(pl_space *space, pl_lane *lane);

#endif
