/* still.c - see still.h. */
#include "segments/pleat/compact/still.h"

#include "segments/pleat/compact/scratch.h"
#include "segments/pleat/grow/trim.h"
#include "segments/pleat/streams/capture.h"
#include "segments/pleat/streams/capture_end.h"
#include "segments/pleat/streams/context.h"

void pl_still_begin(pl_space *space)
{
    while (space->is_compacting) {
        space->n_waiting++;
        pl_lock_wait(&space->lock, &space->landed);
        space->n_waiting--;
    }
    space->is_compacting = true;
}

void pl_still_end(pl_space *space)
{
    space->is_compacting = false;
    pl_cond_broadcast(&space->landed);
}

static pleat_status wait_for_work(pl_space *space)
{
    pl_capture_look_well(space);
    if (pl_capture_forbids_tick(space)) {
        (void)pl_capture_name_lasting(space);
        return PLEAT_ECAPTURE;
    }
    pl_lock_release(&space->lock);
    pleat_status st = pl_device_know_peers(space->dev); /* their default streams have no handle */
    pl_lock_acquire(&space->lock);
    st = st == PLEAT_OK ? pl_context_synchronize(space) : st;
    return st == PLEAT_OK ? pl_trim_quiesce(space, space->wait_ms > 0 ? space->wait_ms : 1) : st;
}

pleat_status pl_still_wait(pl_space *space)
{
    pleat_status st = wait_for_work(space);

    return st == PLEAT_OK ? pl_torn_mend(space) : st;
}
