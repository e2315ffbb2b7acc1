/* ledger.c - see ledger.h. */
#include "segments/pleat/space/ledger.h"

#include "segments/pleat/space/heap.h"
#include "segments/pleat/space/live.h"

void pl_live_leave(pl_space *space, pl_block *b)
{
    bool is_page = b->segment->area->buffer != NULL; /* such blocks are in no map */

    space->n_calls++;
    if (!is_page) {
        pl_ptrmap_remove(&space->blocks.live, b->base);
    }
    pl_usages_end(&space->blocks.usages, is_page ? PLEAT_SIZES_LARGE : pl_stats_pool(b->bytes),
                  b->bytes, b->requested);
    pl_space_tell_block(space, PL_ACTION_FREE_REQUESTED, b);
    pl_heap_end_live(b);
    if (__builtin_expect(b->segment->is_private, false)) {
        pl_segment_own(b->segment, b->base, pl_block_end(b));
    }
    pl_space_lane_at(space, b->lane)->n_live--;
}
