/* front.h - fronts of threads (segments/base/front.h) before a space.
 *
 * A block in a front is live for everything in the space: the map, the granules, the lane, the
 * figures. So a request that finds its block in the front changes nothing there, and the figures
 * are never too small. They are exact when the fronts are empty. Hence two rules: whoever reads
 * figures, walks the blocks, or needs memory that is not resident and free empties the fronts
 * first; and so does a request that would lift a peak, since the peak is the true one only if
 * nothing is in the fronts. A block comes back for a request of exactly as many bytes on the same
 * stream, so its order on the GPU is that of the stream.
 *
 * There are few fronts with few blocks each, so they are emptied in one hold of the lock.
 *
 * All functions except pl_front_alloc and pl_front_free are called with the space's lock held, and
 * keep it. */
#ifndef PLEAT_SEGMENTS_PLEAT_FRONT_H
#define PLEAT_SEGMENTS_PLEAT_FRONT_H

#include "segments/pleat/space.h"

enum { PL_MOST_FRONTS = 32 };

bool pl_pleat_front_bind(pl_allocator *a, pl_front *front, pl_stream *stream, uint64_t key);
void pl_pleat_front_unbind(pl_allocator *a, pl_front *front);

void pl_fronts_empty_all(pl_space *space);
bool pl_fronts_have_blocks(const pl_space *space);
/* True: there were blocks. */
static inline bool pl_fronts_empty(pl_space *space)
{
    bool any = space->fronts != NULL && pl_fronts_have_blocks(space);

    if (any) {
        pl_fronts_empty_all(space);
    }
    return any;
}
/* The same for a request that nothing fits. Where memory is nearly full the fronts are unbound: what
 * they keep apart costs 0.1 % of the least memory that a run needs (front.c). */
bool pl_fronts_yield(pl_space *space);
/* The same as pl_fronts_empty, and count what the fronts have served: for whoever reads figures. */
void pl_fronts_count(pl_space *space);
/* Empty and unbind the fronts of a stream's first lane; 0 = all. */
void pl_fronts_unbind(pl_space *space, uint32_t lane);
/* Give back tables of the map that a front may have been reading. */
void pl_fronts_discard_tables(pl_space *space);

#endif
