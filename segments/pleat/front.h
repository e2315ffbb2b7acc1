/* front.h - fronts of threads (segments/base/front.h) before a space.
 *
 * A block in a front is live for everything in the space: the map, the granules, the lane. So a
 * request that finds its block in the front changes nothing there. Whoever reads figures, walks the
 * blocks, or needs memory that is not resident and free empties the fronts first. A block comes
 * back for a request of the same rounded size on the same stream, so its order on the GPU is that
 * of the stream.
 *
 * Peaks are exact. Each figure of live blocks has room up to its peak (live.h). A front has a part
 * of that room: what is freed into it adds to it, what is taken from it uses it up, and where the
 * room does not suffice the request takes the lock. Under the lock a request first uses the room of
 * the pools, then its own front's, then that of all others', and only then lifts the peak.
 *
 * There are few blocks in a front, so that one is emptied in one hold of the lock; where there are
 * several, the lock is dropped in between.
 *
 * Except for binding and unbinding, every function here is called with the space's lock held. */
#ifndef PLEAT_SEGMENTS_PLEAT_FRONT_H
#define PLEAT_SEGMENTS_PLEAT_FRONT_H

#include "segments/pleat/space.h"

enum { PL_MOST_FRONTS = 32 };

bool pl_pleat_front_bind(pl_allocator *a, pl_front *front, pl_stream *stream, uint64_t key);
void pl_pleat_front_unbind(pl_allocator *a, pl_front *front);

/* From now until pl_fronts_go no owner is inside a front: for whoever looks at live blocks, since
 * an owner changes those that it keeps without the lock. */
void pl_fronts_stop(pl_space *space);
void pl_fronts_go(pl_space *space);
/* May drop the lock. */
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
/* The same, and count what the fronts have served: for whoever reads figures. */
void pl_fronts_count(pl_space *space);
/* Count a block as live that the pools have no room for below the peaks. */
void pl_fronts_begin(pl_space *space, unsigned pool, size_t bytes, size_t requested);
/* Count a small block as freed; there is a front. If only the calling thread has one, the room goes
 * there: its next request may be for the front. */
void pl_fronts_end(pl_space *space, const pl_block *b);
/* Count a live block as freed. */
static inline void pl_fronts_end_live(pl_space *space, const pl_block *b)
{
    unsigned pool = pl_stats_pool(b->bytes);

    if (space->fronts != NULL && pool == PLEAT_POOL_SMALL) {
        pl_fronts_end(space, b);
        return;
    }
    pl_usages_end(&space->usages, pool, b->bytes, b->requested);
}
/* The request, on a lane, finds its block in the calling thread's front, which had no room. */
bool pl_fronts_serve(pl_space *space, uint32_t lane, size_t bytes, pleat_devptr *out);
/* Empty all fronts and unbind those of a stream's first lane; 0 = all. May drop the lock. */
void pl_fronts_unbind(pl_space *space, uint32_t lane);
/* Give back tables of the map that a front may have been reading. */
void pl_fronts_discard_tables(pl_space *space);

#endif
