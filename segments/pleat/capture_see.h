/* capture_see.h - what streams are seen doing: which capture each is in, if any.
 *
 * A capture is seen when a call names a stream that is in it, and its end when the stream is named
 * at rest, or in another one. Guarded by the device lock. */
#ifndef PLEAT_SEGMENTS_CAPTURE_SEE_H
#define PLEAT_SEGMENTS_CAPTURE_SEE_H

#include "segments/pleat/capture.h"

/* A call that names the lane's stream has asked what it is doing: lane->capture says it from now
 * on. `pool`: the request's. May drop the lock when the capture is new. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_capture_see(pl_space *space, pl_lane *lane, const pl_capture_info *info,
                            struct pl_private *pool);
/* The lane's stream is gone: if the capture was seen in no other one, that has ended. */
void pl_capture_lose_lane(pl_space *space, pl_lane *lane);

#endif
