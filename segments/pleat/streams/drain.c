/* drain.c - see drain.h. Guarded by the device lock. */
#include "segments/pleat/streams/drain.h"

#include "segments/pleat/space/private.h"
#include "segments/pleat/space/run.h"
#include "segments/pleat/streams/capture.h"

enum { DRAIN_LOOKS = 8 };

void pl_drain_open(pl_space *space, pl_segment *seg)
{
    seg->is_private = false;
    seg->is_opening = true;
    seg->opened = seg->range.base;
    seg->next_opening = space->places.opening;
    space->places.opening = seg;
}

/* The pool's graphs use the area no more. The granules of free blocks become loose some at a time.
 * The granules of blocks freed from now on become loose at once. */
static void open_area(pl_space *space, pl_area *area)
{
    for (pl_segment *seg = area->segments; seg != NULL; seg = seg->next) {
        pl_drain_open(space, seg);
    }
    area->keeper = NULL; /* area->lane and area->stream stay until a keeper has the area again */
    pl_keeper_release_area(space, area);
}

static void push_draining(pl_space *space, pl_keeper *keeper)
{
    keeper->next = NULL;
    *(space->places.draining != NULL ? &space->places.last_draining->next
                                     : &space->places.draining) = keeper;
    space->places.last_draining = keeper;
}

static void open_some(pl_space *space, pl_segment *seg)
{
    pleat_devptr end = seg->range.base + seg->range.bytes;
    pl_block *b = pl_segment_find(seg, seg->opened);
    uint64_t since = space->n_pieces;

    for (; b != NULL && !pl_space_is_tired(space, since); b = b->next) {
        pl_space_work(space, 1);
        if (b->state == PL_BLOCK_FREE) {
            pl_space_loosen(space, pl_segment_loosen(seg, b->base, pl_block_end(b)));
        }
        bool is_moved = b->is_private || (b->is_apart && !pl_segment_is_apart(seg));
        if (b->state == PL_BLOCK_FREE && b->lane != PL_LANE_SETTLED && is_moved) {
            pl_run_requeue(space, b);
        }
    }
    seg->opened = b != NULL ? b->base : end;
    if (b == NULL) {
        seg->is_opening = false;
        space->places.opening = seg->next_opening;
    }
}

static bool is_drained(const pl_space *space, const pl_private *pool)
{
    return pool->over_tick <= space->streams.context.clock.passed ||
           (pool->n_graphs == 0 && !pool->is_unwatched);
}

/* Take the first drained pool out of the list, oldest first. Looks at a few pools: pools not
 * drained go to the end. */
static pl_keeper *next_drained(pl_space *space)
{
    for (unsigned n = DRAIN_LOOKS; n > 0 && space->places.draining != NULL; n--) {
        pl_keeper *pool = space->places.draining;
        space->places.draining = pool->next;
        if (is_drained(space, pl_private_of(pool))) {
            return pool;
        }
        push_draining(space, pool);
    }
    return NULL;
}

bool pl_drain_some(pl_space *space)
{
    pl_keeper *pool = next_drained(space);
    bool any = false;

    if (pool != NULL && !pl_capture_forget_pool(space, pl_private_of(pool))) {
        pool->next = space->places.draining; /* the next call makes more captures forget the pool */
        space->places.last_draining = space->places.draining != NULL ? space->places.last_draining
                                                                     : pool;
        space->places.draining = pool;
        return true;
    }
    if (pool != NULL) {
        pl_space_work(space, 1);
        while (pool->areas != NULL) {
            pl_area *area = pool->areas;
            pool->areas = area->next;
            open_area(space, area);
        }
        pl_meta_free(&space->meta, pool);
        any = true;
    }
    if (space->places.opening != NULL) {
        open_some(space, space->places.opening);
        any = true;
    }
    return any;
}

void pl_drain_begin(pl_space *space, pl_private *pool)
{
    push_draining(space, &pool->base);
    pool->base.is_told = false;
    pool->over_tick = space->streams.newest_stamp;
    space->streams.context.clock.next = ++space->streams.newest_stamp;
}
