/* capture_see.h - what streams are seen doing: which capture each is in, if any.
 *
 * pleat sees a capture when a call names a stream in it, and its end when a call finds that stream
 * at rest or in another capture. Guarded by the device lock. */
#ifndef PLEAT_SEGMENTS_CAPTURE_SEE_H
#define PLEAT_SEGMENTS_CAPTURE_SEE_H

#include "segments/pleat/streams/capture.h"

/* Does the caller tell of captures, and is there none? */
static inline bool pl_capture_all_told(const pl_space *space)
{
    return space->options.capture == PL_CAPTURE_TOLD && atomic_load(&space->n_expected) == 0;
}

/* Is it known without the driver that the stream is not being captured? The legacy default stream
 * cannot be. */
static inline bool pl_capture_is_told(const pl_space *space, const pl_stream *stream)
{
    return __builtin_expect(pl_stream_is_legacy(stream), true) || pl_capture_all_told(space);
}

/* Is the stream that the call names being captured? The driver is not asked where the caller tells,
 * nor where it was `asked` before. */
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

/* The number of the capture that the second lane's stream is in; 0 = not known. */
static inline uint64_t pl_capture_number_of(const pl_space *space, const pl_lane *lane)
{
    const pl_capture *capture = pl_space_lane_at(space, pl_lane_plain(lane->number))->capture;

    return capture != NULL ? capture->number : 0;
}

/* Set lane->capture to what a call has learned about the stream that it names. `pool`: the
 * request's, or NULL. May drop the lock when the capture is new. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_capture_see(pl_space *space, pl_lane *lane, const pl_capture_info *info,
                            struct pl_private *pool);
/* The capture frees a block of the pool, or uses it: so may its graph, even if the capture has
 * allocated nothing there. */
void pl_capture_see_use(const pl_capture *capture, struct pl_private *pool);
/* The lane's stream is gone: its capture has ended if no other stream was last seen in it. */
void pl_capture_lose_lane(pl_space *space, pl_lane *lane);

#endif
