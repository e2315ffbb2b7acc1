/* walk.c - see walk.h. */
#include "segments/pleat/space/walk.h"

#include "segments/pleat/space/keeper.h"

pl_walk pl_walk_of(pl_space *space, const pl_keeper *keeper, pl_walk_order order)
{
    pl_walk walk = { .space = space, .keeper = keeper, .order = order };

    pl_pace_begin(space, &walk.pace, false);
    return walk;
}

/* The keeper's lowest segment that reaches beyond `at`. Segments are few, as every further segment
 * of an area is at least as large as all before. */
static pl_segment *lowest_from(const pl_keeper *keeper, pleat_devptr at)
{
    pl_segment *lowest = NULL;

    for (const pl_area *area = keeper->areas; area != NULL; area = area->next) {
        for (pl_segment *seg = area->segments; seg != NULL; seg = seg->next) {
            bool is_lower = lowest == NULL || seg->range.base < lowest->range.base;
            lowest = seg->range.base + seg->range.bytes > at && is_lower ? seg : lowest;
            pl_lock_touch(1);
        }
    }
    return lowest;
}

enum { MOST_STEPS = 64, STEPS_A_PIECE = 8 };

/* A block that is not free stays when neighbours are freed and merged. So does the start of a
 * segment. The nearest fixed point below the walk is never far, and the walk steps on from
 * there. */
static void note_below(pl_walk *walk, pl_block *below)
{
    if (below == NULL || below->state != PL_BLOCK_FREE) {
        walk->anchor = below;
        walk->is_near_start = below == NULL;
        walk->n_steps = 0;
    } else if (walk->n_steps++ >= MOST_STEPS) {
        walk->anchor = NULL;
        walk->is_near_start = false;
    }
}

/* The block that covers walk->at. A search among all blocks of a granule is long, so step from the
 * anchor, if set. */
static pl_block *find_at(pl_walk *walk)
{
    pl_block *b = walk->is_near_start ? walk->seg->first : walk->anchor;
    size_t n = 0;

    if (b == NULL) {
        b = pl_segment_find(walk->seg, walk->at);
        note_below(walk, b->prev);
        walk->space->n_pieces += PL_PIECES_A_HOLD / 4; /* to search rarely in one hold */
        return b;
    }
    for (; pl_block_end(b) <= walk->at; n++) {
        b = b->next;
    }
    walk->n_steps = (unsigned)n;
    note_below(walk, b->prev);
    walk->space->n_pieces += n / STEPS_A_PIECE;
    pl_lock_touch(n);
    return b;
}

void pl_walk_lose(pl_walk *walk)
{
    walk->block = NULL;
    walk->anchor = NULL;
    walk->is_near_start = false;
}

/* Begin the next segment, at its start or at `at`. False: there is none. */
static bool begin_segment(pl_walk *walk)
{
    bool is_listed = walk->order == PL_WALK_AS_LISTED;

    pl_walk_lose(walk);
    walk->seg = is_listed ? pl_keeper_next_segment(walk->keeper, walk->seg)
                          : lowest_from(walk->keeper, walk->at);
    if (walk->seg == NULL) {
        return false;
    }
    pleat_devptr start = walk->seg->range.base;
    walk->at = is_listed || walk->at < start ? start : walk->at;
    walk->is_near_start = walk->at == start;
    walk->n_steps = 0;
    return true;
}

pl_block *pl_walk_block(pl_walk *walk)
{
    const pl_segment *seg = walk->seg;

    if ((seg == NULL || seg->range.base + seg->range.bytes <= walk->at) && !begin_segment(walk)) {
        return NULL;
    }
    walk->block = walk->block != NULL ? walk->block : find_at(walk);
    return walk->block;
}

void pl_walk_on(pl_walk *walk, pleat_devptr at, pl_block *block)
{
    walk->at = at;
    walk->block = block;
    if (block != NULL) {
        note_below(walk, block->prev);
    }
    pl_pace_step(walk->space, &walk->pace, 1);
    if (walk->pace.has_breathed) {
        walk->pace.has_breathed = false;
        pl_walk_lose(walk);
    }
}
