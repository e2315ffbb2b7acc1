/* pile.c - chunks become idle, or go back to the driver: see plan.h. Guarded by the device lock. */
#include "segments/pleat/space/plan.h"

#include "vmm/driver.h"

void pl_pile_make_idle(pl_space *space, const pl_pile *pile)
{
    for (size_t i = 0; i < pile->n; i++) {
        pl_space_push_idle(space, pile->chunks[i], pile->orders[i]);
    }
}

void pl_scratch_clear(pl_space *space)
{
    if (space->flights.scratch_bytes > 0 && !space->flights.is_compacting) {
        space->flights.is_compacting = true;
        (void)!pl_scratch_close(space);
        space->flights.is_compacting = false;
        pl_space_wake(space);
    }
}

pleat_status pl_pile_release(pl_space *space, pl_pile *pile, size_t *n_released)
{
    size_t n = pile->n_granules;

    while (space->blocks.n_refused == 0 && space->blocks.n_unmapping > 0) {
        pl_space_wait(space); /* a refused unmap would leave addresses mapped */
    }
    if (space->blocks.n_refused > 0 || space->flights.scratch_bytes > 0) {
        pl_pile_make_idle(space, pile);
        pl_driver_set_detail("the driver did not unmap addresses whose memory is elsewhere by now");
        return PLEAT_EDRIVER;
    }
    pleat_status st = pl_fly_one(space, (pl_task){ PL_TASK_RELEASE, .pile = pile });

    pl_pile_make_idle(space, pile);
    space->chunks.n_held -= n - pile->n_granules;
    space->chunks.n_released += n - pile->n_granules;
    *n_released += n - pile->n_granules;
    return st;
}

pleat_status pl_chunk_give_back(pl_space *space, pl_chunk chunk, unsigned order)
{
    pl_pile pile = { .n = 0 };
    size_t n_released = 0;

    pl_pile_put(&pile, chunk, order);
    return pl_pile_release(space, &pile, &n_released);
}
