/* back.c - see back.h. Guarded by the device lock. */
#include "segments/pleat/space/back.h"

#include "vmm/chunk.h"
#include "vmm/driver.h"

/* ---- one call each --------------------------------------------------------------------------- */

pleat_status pl_back_return(pl_space *space, pl_range range)
{
    pl_away(space);
    pleat_status st = pl_range_release(space->dev, range);
    pl_back(space);
    return st;
}

pleat_status pl_back_create(pl_space *space, unsigned order, size_t n, pl_chunk *out,
                            size_t *n_created)
{
    pleat_status st = PLEAT_OK;
    size_t n_so_far = 0;

    pl_away(space);
    while (n_so_far < n && st == PLEAT_OK) {
        st = pl_chunk_create_sized(space->dev, space->granule_bytes << order, &out[n_so_far]);
        n_so_far += st == PLEAT_OK;
    }
    pl_back(space);
    if (n_created != NULL) {
        *n_created = n_so_far;
    }
    return st;
}

pleat_status pl_back_map(pl_space *space, pleat_devptr at, const pl_chunk *chunks,
                         const uint8_t *orders, size_t n)
{
    pl_away(space);
    pleat_status st = pl_mapping_map_mixed(space->dev, at, chunks, orders, n);
    pl_back(space);
    return st;
}

pleat_status pl_back_unmap(pl_space *space, pleat_devptr at, size_t n)
{
    pl_away(space);
    pleat_status st = pl_mapping_unmap(space->dev, at, n << space->granule_log2);
    pl_back(space);
    return st;
}

pleat_status pl_back_clear(pl_space *space, pleat_devptr at, size_t n)
{
    pl_away(space);
    pleat_status st = pl_mapping_clear(space->dev, at, n << space->granule_log2);
    pl_back(space);
    return st;
}

/* ---- piles ----------------------------------------------------------------------------------- */

void pl_pile_make_idle(pl_space *space, const pl_pile *pile)
{
    for (size_t i = 0; i < pile->n; i++) {
        pl_space_push_idle(space, pile->chunks[i], pile->orders[i]);
    }
}

/* Those that the driver refuses stay in the pile. */
static pleat_status release(pl_space *space, pl_pile *pile)
{
    pl_pile refused = { .n = 0 };
    pleat_status st = PLEAT_OK;

    pl_away(space);
    for (size_t i = 0; i < pile->n; i++) {
        unsigned order = pile->orders[i];
        pleat_status failed = pl_chunk_release_sized(space->dev, pile->chunks[i],
                                                     space->granule_bytes << order);
        if (failed != PLEAT_OK) {
            pl_pile_put(&refused, pile->chunks[i], order);
            st = failed;
        }
    }
    pl_back(space);
    *pile = refused;
    return st;
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
    pleat_status st = release(space, pile);
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

/* ---- scratch addresses ----------------------------------------------------------------------- */

static void make_idle(pl_space *space, pl_scratched *from)
{
    for (; from->n > 0; from->n--) {
        pl_space_push_idle(space, from->chunks[from->n - 1], from->orders[from->n - 1]);
    }
    space->chunks.n_pinned -= from->n_granules;
    from->n_granules = 0;
    pl_lock_touch((size_t)1 << PL_MOST_ORDER);
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
        if (pl_back_clear(space, range.base, n) != PLEAT_OK) {
            return PLEAT_EPOISONED;
        }
        space->flights.scratch_bytes = 0;
        make_idle(space, &space->flights.scratched);
    }
    if (pl_back_return(space, range) != PLEAT_OK) {
        return PLEAT_EPOISONED;
    }
    space->flights.scratch = (pl_range){ .bytes = 0 };
    return PLEAT_OK;
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
