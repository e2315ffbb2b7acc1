/* retire.c - see retire.h. Takes the space's lock, rank 20. */
#include "segments/pleat/retire.h"

#include "segments/pleat/capture_see.h"
#include "segments/pleat/front.h"
#include "segments/pleat/lanes.h"
#include "segments/pleat/space.h"

/* The stream may just have ended a capture; once it is retired, nothing else tells of that. */
static void see_retired(pl_space *space, pl_stream *stream, const pl_capture_info *info)
{
    uint32_t i = pl_lane_number(stream, false) - 1;
    pl_lane *lane = i < space->n_lane_rooms ? space->lanes[i] : NULL;

    if (lane != NULL) {
        lane->n_refs++;
        (void)pl_capture_see(space, lane, info, NULL);
        lane->n_refs--;
    }
}

/* The owner of the stream is about to destroy it. Streams are released under the lock only, so the
 * stream is still there after pl_stream_put. */
void pl_pleat_retire_stream(pl_allocator *a, pl_stream *stream)
{
    pl_space *space = (pl_space *)a;
    pl_capture_info info;
    bool is_known = false;
    bool is_seen = pl_capture_learn(space, stream, NULL, &info) == PLEAT_OK;

    pl_lock_acquire(&space->lock);
    pl_fronts_unbind(space, pl_lane_number(stream, false));
    if (is_seen) {
        see_retired(space, stream, &info);
    }
    for (int is_capture = 0; is_capture < 2; is_capture++) {
        uint32_t i = pl_lane_number(stream, is_capture != 0) - 1;
        pl_lane *lane = i < space->n_lane_rooms ? space->lanes[i] : NULL;
        if (lane != NULL) {
            is_known = true;
            lane->n_refs++;
            pl_lanes_retire(space, lane);
            lane->n_refs--;
        }
    }
    pl_stream_retire(stream);
    pl_stream_put(stream);
    if (!is_known) {
        pl_stream_release(stream);
    }
    pl_lanes_look_for_gone(space, 1);
    pl_lock_release(&space->lock);
}
