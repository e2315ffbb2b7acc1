/* stale.c - unmaps the old addresses of taken chunks: see trim.h. */
#include "segments/pleat/grow/trim.h"

#include "segments/pleat/space/back.h"
#include "segments/pleat/space/run.h"
#include "segments/pleat/streams/settle.h"

enum { GATHER_SOME = 256 }; /* in one hold of the lock */

static bool is_ripe(const pl_space *space, const pl_block *b)
{
    return b != NULL && b->state == PL_BLOCK_STALE && pl_settle_is_over(space, b);
}

/* May b be unmapped together with its ripe neighbour? What the driver has refused may be mapped in
 * part, and with it the sum would be refused. */
static bool is_like(const pl_space *space, const pl_block *b, const pl_block *neighbour)
{
    return is_ripe(space, neighbour) && neighbour->is_refused == b->is_refused;
}

/* Put b and its ripe neighbours, or some of very many, into a single block in flight. */
static pl_block *gather(pl_space *space, pl_block *b)
{
    size_t n_below = GATHER_SOME;
    size_t n_above = 2 * GATHER_SOME;

    for (; n_below > 0 && is_like(space, b, b->prev); n_below--) {
        b = b->prev;
    }
    pl_carve_unqueue_stale(space, b);
    for (; n_above > 0 && is_like(space, b, b->next); n_above--) {
        pl_carve_unqueue_stale(space, b->next);
        pl_segment_absorb(b->segment, &space->blocks.store, b, b->next);
    }
    pl_lock_touch(3 * GATHER_SOME - n_below - n_above);
    b->was = PL_BLOCK_STALE;
    pl_segment_become(b->segment, &space->blocks.store, b, PL_BLOCK_FLIGHT);
    return b;
}

/* Unmap b, which is in flight. After a refusal nobody knows which part is mapped: it is cleared. */
static bool unmap(pl_space *space, pl_block *b)
{
    pl_flying flying;

    pl_space_take_off(space, &flying);
    space->blocks.n_unmapping++;
    size_t n = pl_segment_granules_of(b->segment, b);
    pleat_status st = (b->is_refused ? pl_back_clear : pl_back_unmap)(space, b->base, n);
    space->blocks.n_unmapping--;
    (st == PLEAT_OK ? pl_carve_make_hole : pl_carve_refuse)(space, b);
    pl_space_land(space, &flying);
    return st == PLEAT_OK;
}

/* Look once at every block that is stale now. Blocks that are not ripe, or that the driver refuses,
 * go to the queue's end. A driver that is gone would refuse all. So the look ends with the first
 * block refused, and blocks refused before are tried until one is refused again. */
size_t pl_stale_reap(pl_space *space)
{
    size_t n = 0;
    bool may_retry = true;
    pl_pace pace;

    pl_pace_begin(space, &pace, false);
    for (size_t n_looks = pl_space_n_stale(space); n_looks > 0 && space->blocks.stale.first != NULL;
         n_looks--) {
        pl_block *b = space->blocks.stale.first;
        if (is_ripe(space, b) && (may_retry || !b->is_refused)) {
            bool is_again = b->is_refused;
            bool is_over = unmap(space, gather(space, b));
            if (!is_over && !is_again) {
                break;
            }
            may_retry = is_over && may_retry;
            n += is_over;
            continue;
        }
        pl_queue_remove(&space->blocks.stale, b);
        pl_queue_push(&space->blocks.stale, b);
        pl_pace_step(space, &pace, 1);
    }
    return n;
}
