/* still.c - see still.h. */
#include "segments/pleat/compact/still.h"

#include "segments/pleat/compact/scratch.h"
#include "segments/pleat/grow/trim.h"
#include "segments/pleat/streams/capture.h"
#include "segments/pleat/streams/capture_end.h"
#include "segments/pleat/streams/context.h"
#include "vmm/driver.h"

void pl_still_begin(pl_space *space)
{
    while (space->is_compacting) {
        pl_space_wait(space);
    }
    space->is_compacting = true;
}

void pl_still_end(pl_space *space)
{
    space->is_compacting = false;
    pl_space_wake(space);
}

/* Programs submit work far ahead of the GPU. So waits for all work may last longer, also where
 * requests do not wait at all (wait_ms:0). */
enum { WORK_WAITS = 30, LEAST_WAIT_MS = 1000, MOST_WAIT_MS = 1 << 30 };

static uint32_t most_wait(const pl_space *space)
{
    uint64_t most_ms = (uint64_t)WORK_WAITS * space->wait_ms;

    most_ms = most_ms > LEAST_WAIT_MS ? most_ms : LEAST_WAIT_MS;
    return most_ms < MOST_WAIT_MS ? (uint32_t)most_ms : MOST_WAIT_MS;
}

pleat_status pl_still_wait(pl_space *space)
{
    uint32_t most_ms = most_wait(space);

    pl_capture_look_well(space);
    if (pl_capture_forbids_tick(space)) {
        (void)pl_capture_name_lasting(space);
        return PLEAT_ECAPTURE;
    }
    pl_lock_release(&space->lock);
    pleat_status st = pl_device_know_peers(space->dev); /* their default streams have no handle */
    pl_lock_acquire(&space->lock);
    st = st == PLEAT_OK ? pl_context_finish(space, most_ms) : st;
    if (st == PLEAT_EPENDING) {
        pl_driver_set_detail("work that was submitted before is not over after %u ms (30 times "
                             "wait_ms, at least 1,000): perhaps a kernel that does not end",
                             (unsigned)most_ms);
    }
    return st;
}

pleat_status pl_still_settle(pl_space *space)
{
    pleat_status st = pl_trim_quiesce(space, space->wait_ms > 0 ? space->wait_ms : 1);

    return st == PLEAT_OK ? pl_torn_mend(space) : st;
}
