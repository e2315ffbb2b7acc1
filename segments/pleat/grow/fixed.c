/* fixed.c - see fixed.h. Guarded by the device lock. Never calls the driver.
 *
 *   the buffer   |#### live ####|-- free --|... hole ...|~ stale ~|#### live ####|... hole ...|
 *   a request                   [at         at + bytes)
 *
 * The request has only one place. The caller bounds how many blocks lie in the place. */
#include "segments/pleat/grow/fixed.h"

#include "segments/pleat/space/carve.h"
#include "segments/pleat/space/run.h"

pleat_status pl_fixed_place(const pl_space *space, const pl_request *rq, pl_place *out)
{
    const pl_segment *seg = rq->in;
    pleat_devptr end = rq->at + rq->bytes;
    pl_block *first = pl_segment_find(seg, rq->at);
    pl_place place = { .segment = rq->in, .first = first, .at = rq->at };
    pleat_status st = PLEAT_OK;

    for (const pl_block *b = first; b != NULL && b->base < end; b = b->next) {
        pleat_devptr from = b->base > rq->at ? b->base : rq->at;
        pleat_devptr to = pl_block_end(b) < end ? pl_block_end(b) : end;
        pl_lock_touch(1);
        if (b->state == PL_BLOCK_HOLE || b->state == PL_BLOCK_STALE) {
            place.n_new += (size_t)((to - from) >> space->granule_log2);
        } else if (b->state == PL_BLOCK_FREE) {
            place.n_pin += pl_segment_count_loose(seg, from, to) +
                           pl_segment_count_loose_beside(seg, from, to);
        }
        if (b->state == PL_BLOCK_POISON) {
            return PLEAT_EPOISONED;
        }
        if (b->state != PL_BLOCK_HOLE && !pl_run_may_use(b, rq->usable)) {
            st = PLEAT_EPENDING;
        }
    }
    place.n_pin += place.n_new;
    *out = place;
    return st;
}

static bool is_all_free(const pl_request *rq, const pl_block *b)
{
    pleat_devptr end = rq->at + rq->bytes;

    for (; b != NULL && b->base < end; b = b->next) {
        pl_lock_touch(1);
        if (!pl_run_may_use(b, rq->usable)) {
            return false;
        }
    }
    return true;
}

pl_block *pl_fixed_fit(pl_space *space, const pl_request *rq)
{
    pl_block *b = pl_segment_find(rq->in, rq->at);

    if (!is_all_free(rq, b)) {
        return NULL;
    }
    b = pl_carve_out_all(space, b, rq->at, rq->at + rq->bytes);
    pl_space_pin(space, 0);
    pl_segment_become(b->segment, &space->store, b, PL_BLOCK_LIVE);
    return b;
}
