/* ledger.c - see ledger.h. */
#include "segments/pleat/space/ledger.h"

#include "segments/pleat/space/keeper.h"
#include "segments/pleat/space/live.h"

/* Pages of buffers are in no map, and count as large. */
static inline bool is_page(const pl_block *b)
{
    return b->segment->area->buffer != NULL;
}

static inline unsigned pool_of(const pl_block *b)
{
    return is_page(b) ? PLEAT_SIZES_LARGE : pl_stats_pool(b->bytes);
}

void pl_ledger_born(pl_space *space, pl_lane *lane, pl_block *b, size_t requested)
{
    b->requested = requested;
    b->lane = lane->number;
    b->is_claimed = false;
    pl_ledger_count_born(space, lane, b, pool_of(b));
    if (!is_page(b)) {
        pl_ptrmap_insert(&space->blocks.live, b->base, b);
    }
    pl_keeper_hear(b->segment, PL_KEEPER_BORN, b);
    pl_space_tell_block(space, PL_ACTION_ALLOC, b);
}

void pl_ledger_freed(pl_space *space, pl_block *b)
{
    if (!is_page(b)) {
        pl_ptrmap_remove(&space->blocks.live, b->base);
    }
    pl_ledger_count_freed(space, pl_space_lane_at(space, b->lane), b, pool_of(b));
    pl_space_tell_block(space, PL_ACTION_FREE_REQUESTED, b);
    pl_keeper_hear(b->segment, PL_KEEPER_FREED, b);
    if (__builtin_expect(b->segment->is_private, false)) {
        pl_segment_own(b->segment, b->base, pl_block_end(b));
    }
}

void pl_ledger_divided(pl_space *space, pl_lane *lane, const pl_block *b)
{
    lane->n_live++;
    b->segment->area->n_used++;
    pl_usages_begin(&space->blocks.usages, PLEAT_SIZES_LARGE, 0, 0);
    pl_keeper_hear(b->segment, PL_KEEPER_DIVIDED, b);
}

void pl_ledger_united(pl_space *space, pl_lane *lane, const pl_block *b)
{
    lane->n_live--;
    b->segment->area->n_used--;
    pl_usages_end(&space->blocks.usages, PLEAT_SIZES_LARGE, 0, 0);
    pl_keeper_hear(b->segment, PL_KEEPER_UNITED, b);
}
