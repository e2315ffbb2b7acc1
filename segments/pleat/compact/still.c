/* still.c - see still.h. */
#include "segments/pleat/compact/still.h"

#include "segments/pleat/grow/trim.h"
#include "segments/pleat/space/back.h"
#include "segments/pleat/streams/capture.h"
#include "segments/pleat/streams/capture_see.h"
#include "segments/pleat/streams/context.h"
#include "vmm/driver.h"

void pl_still_begin(pl_space *space)
{
    while (space->flights.is_compacting) {
        pl_space_wait(space);
    }
    space->flights.is_compacting = true;
}

void pl_still_end(pl_space *space)
{
    space->flights.is_compacting = false;
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
    /* Default streams of peers have no handle. */
    pl_away(space);
    pleat_status st = pl_device_know_peers(space->dev);
    pl_back(space);
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

    st = st == PLEAT_OK ? pl_torn_mend(space) : st;
    return st == PLEAT_OK ? pl_scratch_close(space) : st;
}

/* ---- scratch addresses, and torn memory ------------------------------------------------------ */

enum { MOST_GRANULES = 1 << PL_MOST_ORDER };

pleat_status pl_scratch_open(pl_space *space, unsigned order)
{
    pl_range range = { .bytes = 0 };
    size_t bytes = space->granule_bytes << (order + 1); /* an old chunk and the new ones */
    pleat_status st = pl_scratch_close(space);

    if (st == PLEAT_OK) {
        pl_away(space);
        st = pl_range_reserve(space->dev, bytes, bytes, &range);
        pl_back(space);
        space->flights.scratch = range;
    }
    return st;
}

/* Some of the granules [g, g + n) may be mapped, if undoing a mapping failed. Meanwhile nothing of
 * a torn segment is given out, taken or trimmed. */
static bool mend_run(pl_space *space, const pl_segment *seg, size_t g, size_t n)
{
    for (unsigned tries = 0; tries < 2; tries++) {
        if (pl_back_map(space, pl_segment_address(seg, g), seg->chunks + g, seg->orders + g, n) ==
            PLEAT_OK) {
            return true;
        }
        (void)!pl_back_clear(space, pl_segment_address(seg, g), n);
    }
    return false;
}

/* The caller has waited for the device. */
pleat_status pl_torn_mend(pl_space *space)
{
    pl_torn *torn = &space->flights.torn;
    size_t n;

    for (size_t i = 0; torn->segment != NULL && i < MOST_GRANULES; i += n) {
        for (n = 0; i + n < MOST_GRANULES && torn->is_unmapped[i + n]; n++) {
        }
        if (n > 0 && !mend_run(space, torn->segment, torn->from + i, n)) {
            return PLEAT_EPOISONED;
        }
        for (size_t k = 0; k < n; k++) {
            torn->is_unmapped[i + k] = false;
        }
        n = n > 0 ? n : 1;
    }
    torn->segment = NULL;
    space->flights.is_scratch_busy = false;
    return PLEAT_OK;
}
