/* ledger.h - a live block ends: every count that knows of the block moves, in one function.
 *
 * Guarded by the space's lock. Nothing here fails or drops the lock. */
#ifndef PLEAT_SEGMENTS_LEDGER_H
#define PLEAT_SEGMENTS_LEDGER_H

#include "segments/pleat/space/space.h"

/* b is about to be freed: live no more in the map, in the figures, in its heap and for its lane.
 * The observer hears of the request. */
void pl_live_leave(pl_space *space, pl_block *b);
/* Nobody uses b, which was live, any more. The caller makes b free, or puts b in flight. */
static inline void pl_live_complete(const pl_space *space, const pl_block *b)
{
    pl_space_tell_block(space, PL_ACTION_FREE_COMPLETED, b);
    b->segment->area->n_used--;
}

#endif
