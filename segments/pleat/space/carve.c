/* carve.c - cuts free blocks and holes out for a flight, and puts them back: see run.h. Guarded by
 * the space's lock. */
#include "segments/pleat/space/buffer_area.h"
#include "segments/pleat/space/keeper.h"
#include "segments/pleat/space/run.h"

void pl_carve_make_hole(pl_space *space, pl_block *b)
{
    pl_segment *seg = b->segment;
    pl_block_queue *holes = &seg->area->holes;

    pl_segment_become(seg, &space->blocks.store, b, PL_BLOCK_HOLE);
    b->is_refused = false;
    b->lane = PL_LANE_SETTLED;
    b->stamp = 0;
    if (b->next != NULL && b->next->state == PL_BLOCK_HOLE) {
        pl_queue_remove(holes, b->next);
        pl_segment_absorb(seg, &space->blocks.store, b, b->next);
    }
    if (b->prev != NULL && b->prev->state == PL_BLOCK_HOLE) {
        pl_segment_absorb(seg, &space->blocks.store, b->prev, b); /* prev stays queued */
    } else {
        pl_queue_push(holes, b);
    }
    pl_hollow_note(space, seg->area);
}

void pl_carve_make_stale(pl_space *space, pl_block *b)
{
    pl_segment_become(b->segment, &space->blocks.store, b, PL_BLOCK_STALE);
    if (b->lane != PL_LANE_SETTLED) {
        pl_space_lane_at(space, b->lane)->n_refs++;
    }
    b->segment->n_refused += b->is_refused;
    space->blocks.n_refused += b->is_refused;
    pl_queue_push(&space->blocks.stale, b);
}

void pl_carve_refuse(pl_space *space, pl_block *b)
{
    pl_carve_settle(b);
    b->is_refused = true;
    pl_carve_make_stale(space, b);
}

void pl_carve_unqueue_stale(pl_space *space, pl_block *b)
{
    pl_queue_remove(&space->blocks.stale, b);
    b->segment->n_refused -= b->is_refused;
    space->blocks.n_refused -= b->is_refused;
    if (b->lane != PL_LANE_SETTLED) {
        pl_space_lane_at(space, b->lane)->n_refs--;
        pl_carve_settle(b);
    }
}

void pl_carve_lose(pl_space *space, pl_block *b, bool is_torn)
{
    pl_segment *seg = b->segment;
    size_t g = pl_segment_granule(seg, b->base);
    size_t n = pl_segment_granules_of(seg, b);

    pl_segment_clear_chunks(seg, g, g + n);
    pl_keeper_count(seg, 0, b->bytes);
    seg->n_resident -= n;
    pl_space_tell_run(space, PL_ACTION_SEGMENT_UNMAP, seg, b->base, b->bytes);
    (is_torn ? pl_carve_refuse : pl_carve_make_hole)(space, b);
}

void pl_carve_put_back(pl_space *space, pl_block *b)
{
    if (b->was == PL_BLOCK_HOLE) {
        pl_carve_make_hole(space, b);
        return;
    }
    bool is_over = b->lane != PL_LANE_SETTLED && pl_space_has_many_lanes(space) &&
                   pl_lane_has_passed(space, pl_space_lane_at(space, b->lane), b->stamp);
    pl_run_free(space, b, is_over ? PL_LANE_SETTLED : b->lane, is_over ? 0 : b->stamp);
}

/* *n_loose: the number of granules that were loose, and are loose no more. In a segment that opens,
 * putting the rest back may make further granules loose: a change of n_loose would tell too
 * little. */
static pl_block *cut_out(pl_space *space, pl_block *b, pleat_devptr base, pleat_devptr end,
                         size_t *n_loose)
{
    pl_segment *seg = b->segment;
    pl_block *low = NULL;
    pl_block *high = NULL;

    b->was = b->state;
    if (b->state == PL_BLOCK_HOLE) {
        pl_queue_remove(&seg->area->holes, b);
    } else {
        pl_run_claim(space, b);
    }
    if (b->base < base) {
        low = b;
        b = pl_segment_split(seg, &space->blocks.store, b, base);
    }
    if (pl_block_end(b) > end) {
        high = pl_segment_split(seg, &space->blocks.store, b, end);
    }
    pl_segment_become(seg, &space->blocks.store, b, PL_BLOCK_FLIGHT);
    *n_loose = b->was == PL_BLOCK_HOLE ? 0 : pl_segment_pin(seg, b->base, pl_block_end(b));
    space->chunks.n_loose -= *n_loose;
    if (low != NULL) {
        pl_carve_put_back(space, low);
    }
    if (high != NULL) {
        pl_carve_put_back(space, high);
    }
    pl_run_refresh_beside(space, b, b);
    return b;
}

pl_block *pl_carve_out(pl_space *space, pl_block *b, pleat_devptr base, pleat_devptr end)
{
    size_t n_loose;

    b = cut_out(space, b, base, end, &n_loose);
    space->chunks.n_pinned += n_loose;
    return b;
}

pl_block *pl_carve_take(pl_space *space, pl_block *b, pleat_devptr base, pleat_devptr end)
{
    size_t n_loose;

    return cut_out(space, b, base, end, &n_loose);
}

pl_block *pl_carve_out_all(pl_space *space, pl_block *b, pleat_devptr base, pleat_devptr end)
{
    pl_block *first = NULL;

    for (pleat_devptr at = base; at < end; b = first->next) {
        pleat_devptr stop = pl_block_end(b) < end ? pl_block_end(b) : end;
        b = pl_carve_out(space, b, at, stop);
        at = stop;
        if (first == NULL) {
            first = b;
        } else {
            pl_segment_absorb(first->segment, &space->blocks.store, first, b);
        }
        pl_lock_touch(1);
    }
    return first;
}

/* A granule is pinned with the block that has the granule's first byte. Freeing the last block of a
 * chunk makes the chunk's granules loose, unless a pool or a heap that fell asleep owns them. */
void pl_carve_restore(pl_space *space, pl_block *b)
{
    const pl_segment *seg = b->segment;
    pleat_devptr base = b->base;
    pleat_devptr end = pl_block_end(b);

    space->chunks.n_pinned += (size_t)((pl_segment_ceil(seg, end) - pl_segment_ceil(seg, base)) >>
                                       seg->granule_log2);
    pl_carve_put_back(space, b);
}
