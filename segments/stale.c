/* stale.c - see stale.h. */
#include "segments/stale.h"

#include "segments/flight.h"
#include "segments/settle.h"
#include "vmm/mapping.h"

static bool is_ripe(const pl_space *space, const pl_block *b)
{
    return b != NULL && b->state == PL_BLOCK_STALE && pl_settle_is_over(space, b);
}

static pl_block *next_ripe(const pl_space *space)
{
    for (pl_block *b = space->stale.first; b != NULL; b = b->queue_next) {
        if (is_ripe(space, b)) {
            return b;
        }
    }
    return NULL;
}

static void unqueue(pl_space *space, pl_block *b)
{
    pl_queue_remove(&space->stale, b);
    space->n_stale--;
}

/* b and its ripe neighbours as one block in flight. */
static pl_block *gather(pl_space *space, pl_block *b)
{
    while (is_ripe(space, b->prev)) {
        b = b->prev;
    }
    unqueue(space, b);
    while (is_ripe(space, b->next)) {
        unqueue(space, b->next);
        pl_segment_absorb(b->segment, &space->store, b, b->next);
    }
    b->was = PL_BLOCK_STALE;
    b->state = PL_BLOCK_FLIGHT;
    return b;
}

size_t pl_stale_reap(pl_space *space)
{
    size_t n = 0;

    for (pl_block *b = next_ripe(space); b != NULL; b = next_ripe(space)) {
        b = gather(space, b);
        pl_lock_release(&space->lock);
        pleat_status st = pl_mapping_unmap(space->dev, b->base, b->bytes);
        pl_lock_acquire(&space->lock);
        if (st == PLEAT_OK) {
            pl_flight_make_hole(space, b);
            n++;
        } else {
            space->n_poisoned += b->bytes >> space->granule_log2;
            b->state = PL_BLOCK_POISON;
        }
    }
    return n;
}
