/* retire_op.c - the owner of a stream says that the stream is about to be destroyed. */

#include "segments/pleat/front/front.h"
#include "segments/pleat/space/ops.h"
#include "segments/pleat/space/space.h"
#include "segments/pleat/streams/capture_see.h"
#include "segments/pleat/streams/lanes.h"

/* The stream may just have ended a capture. Once the stream is retired, no call would see the
 * end. */
static void see(pl_space *space, const pl_stream *stream, const pl_capture_info *info)
{
    pl_lane *lane = pl_space_lane_of(space, stream, false);

    if (lane != NULL) {
        lane->n_refs++;
        (void)pl_capture_see(space, lane, info, NULL);
        lane->n_refs--;
    }
}

/* False: the lane does not exist. */
static bool retire(pl_space *space, const pl_stream *stream, bool is_capture)
{
    pl_lane *lane = pl_space_lane_of(space, stream, is_capture);

    if (lane != NULL) {
        lane->n_refs++;
        pl_lanes_retire(space, lane);
        lane->n_refs--;
    }
    return lane != NULL;
}

/* Streams are released under the lock only, so the stream lives on after pl_stream_put. */
void pl_pleat_retire_stream(pl_allocator *a, pl_stream *stream)
{
    pl_space *space = (pl_space *)a;
    pl_capture_info info = { .is_capturing = false };
    bool is_seen = pl_capture_is_told(space, stream) ||
                   pl_stream_capture(stream, &info) == PLEAT_OK;

    pl_lock_acquire(&space->lock);
    pl_fronts_unbind(space, pl_lane_number(stream, false));
    if (is_seen) {
        see(space, stream, &info);
    }
    bool is_known = retire(space, stream, false);
    is_known = retire(space, stream, true) || is_known;
    pl_stream_retire(stream);
    pl_stream_put(stream);
    if (!is_known) {
        pl_stream_release(stream);
    }
    pl_lanes_look_for_gone(space, 1);
    pl_lock_release(&space->lock);
}

void pl_pleat_doubt_stream(pl_allocator *a, pl_stream *stream)
{
    pl_space *space = (pl_space *)a;

    pl_lock_acquire(&space->lock);
    pl_stream_doubt(stream);
    pl_fronts_unbind(space, pl_lane_number(stream, false));
    pl_lock_release(&space->lock);
}
