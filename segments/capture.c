/* capture.c - see capture.h. Guarded by the device lock. */
#include "segments/capture.h"

#include "segments/expandable.h"
#include "segments/run.h"
#include "segments/settle.h"

pleat_status pl_capture_is_active(const pl_space *space, pl_stream *stream, bool *out)
{
    (void)space;
    *out = false;
    return pl_stream_handle(stream) == NULL ? PLEAT_OK : pl_stream_is_capturing(stream, out);
}

void pl_capture_keep(pl_space *space, pl_block *b, pl_lane *capturing)
{
    b->state = PL_BLOCK_KEPT;
    pl_queue_push(&capturing->kept, b);
    space->n_kept_bytes += b->bytes;
}

/* The graph of `lane` is gone. A block that another graph allocated is kept for that one yet. */
static void release_kept(pl_space *space, pl_lane *lane)
{
    pl_block *b = lane->kept.first;
    pl_lane *owner = space->lanes[b->lane - 1];

    pl_queue_remove(&lane->kept, b);
    if (b->is_captured && owner != lane) {
        pl_queue_push(&owner->kept, b);
        return;
    }
    space->n_kept_bytes -= b->bytes;
    b->is_captured = false;
    if (b->uses != NULL) {
        pl_settle_free_many(space, b, owner);
    } else {
        pl_space_tell_block(space, PL_ACTION_FREE_COMPLETED, b);
        pl_run_free(space, b, owner->number, owner->next_tick);
    }
}

pleat_status pl_expandable_release_capture(pl_allocator *a, pl_stream *stream)
{
    pl_space *space = (pl_space *)a;
    pl_lane *lane;
    bool is_capturing;
    pleat_status st = pl_capture_is_active(space, stream, &is_capturing);

    if (st != PLEAT_OK || is_capturing) {
        return st != PLEAT_OK ? st : PLEAT_ECAPTURE;
    }
    pl_lock_acquire(&space->lock);
    pl_settle_release_uses(space, stream);
    st = pl_space_lane(space, stream, false, &lane);
    while (st == PLEAT_OK && lane->kept.first != NULL) {
        release_kept(space, lane);
    }
    pl_lock_release(&space->lock);
    return st;
}
