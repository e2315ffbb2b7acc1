/* scratch.c - see plan.h: the addresses where a compaction copies are given back. Guarded by the
 * device lock. */
#include "segments/pleat/space/plan.h"

enum { MOST_GRANULES = 1 << PL_MOST_ORDER };

static void make_idle(pl_space *space, pl_scratched *from)
{
    for (; from->n > 0; from->n--) {
        pl_space_push_idle(space, from->chunks[from->n - 1], from->orders[from->n - 1]);
    }
    space->chunks.n_pinned -= from->n_granules;
    from->n_granules = 0;
    pl_lock_touch(MOST_GRANULES);
}

pleat_status pl_scratch_close(pl_space *space)
{
    pl_range range = space->flights.scratch;

    if (range.bytes == 0) {
        return PLEAT_OK;
    }
    if (space->flights.is_scratch_busy) { /* copies into it may still run */
        return PLEAT_EPOISONED;
    }
    if (space->flights.scratch_bytes > 0) { /* mapped in part */
        size_t n = space->flights.scratch_bytes >> space->granule_log2;
        if (pl_fly_one(space, (pl_task){ PL_TASK_CLEAR, .at = range.base, .n = n }) != PLEAT_OK) {
            return PLEAT_EPOISONED;
        }
        space->flights.scratch_bytes = 0;
        make_idle(space, &space->flights.scratched);
    }
    if (pl_fly_one(space, (pl_task){ PL_TASK_RETURN, .range = &range }) != PLEAT_OK) {
        return PLEAT_EPOISONED;
    }
    space->flights.scratch = (pl_range){ .bytes = 0 };
    return PLEAT_OK;
}
