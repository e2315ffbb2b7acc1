/* front.h - fronts of threads (segments/base/fronts.h) before a space.
 *
 * A block in a front is live for everything in the space: the map, the granules, the lane. So a
 * request that finds its block in the front changes nothing in the space. A block serves only
 * requests of its rounded size on its stream, so the stream's own order on the GPU suffices. The
 * fronts are emptied before figures are read, before blocks are walked, and for a request that
 * finds no free resident memory.
 *
 * Peaks are exact. Each figure of live blocks has room up to its peak (live.h). A front has a part
 * of that room. A block freed into the front adds to the front's room, a block taken from the front
 * uses the room up. Where the room does not suffice, the request takes the lock. Under the lock a
 * request first uses the room of the pools, then its own front's, then that of all others', and
 * only then lifts the peak.
 *
 * A late block is live in the figures, too, until the block is counted: by the owner's next call,
 * by a request that might lift a peak, or by a thread that empties the front. A late block is in
 * nobody's room.
 *
 * A hold of the lock empties a front, which has few blocks. The lock is dropped between fronts.
 *
 * Except for binding and unbinding, every function here is called with the space's lock held. */
#ifndef PLEAT_SEGMENTS_PLEAT_FRONT_H
#define PLEAT_SEGMENTS_PLEAT_FRONT_H

#include "segments/pleat/space/space.h"

enum { PL_MOST_FRONTS = 32, PL_CREDIT_AT_FIRST = 8 /* of a magazine */ };

/* From now until pl_fronts_go no owner is inside a front. Owners change the blocks in their fronts
 * without the lock, so callers that look at live blocks stop the owners first. */
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
/* Empty the fronts and count the requests that they have served, before figures are read. */
void pl_fronts_count(pl_space *space);
/* Count a block as live that the pools have no room for below the peaks. */
void pl_fronts_begin(pl_space *space, unsigned pool, size_t bytes, size_t requested);
/* b, in no front, is about to be freed: live no more in the map, in the figures, in its heap and
 * for its lane. The observer hears of the request. */
void pl_live_leave(pl_space *space, pl_block *b);
/* Nobody uses b, which was live, any more. The caller makes b free, or puts b in flight. */
static inline void pl_live_complete(const pl_space *space, const pl_block *b)
{
    pl_space_tell_block(space, PL_ACTION_FREE_COMPLETED, b);
    b->segment->area->n_used--;
}
/* The calling thread's first front in the list from `from` on, for the lane, 0 = any; or NULL. */
pl_front *pl_fronts_own(pl_front *from, uint32_t lane);
/* The request finds its block in the calling thread's front, which had no room. */
bool pl_fronts_serve(pl_space *space, pl_front *front, size_t bytes, pleat_devptr *out);

/* front_call.c: the owner's calls inside its front (pl_front.alloc and free). */
bool pl_front_alloc(pl_front *front, size_t requested, pleat_devptr *out);
bool pl_front_free(pl_front *front, pleat_devptr ptr);

/* ---- inside a front, or with the lock held and its owner outside ---- */

static inline unsigned pl_front_bin(size_t bytes)
{
    return (unsigned)((bytes + PL_FRONT_UNIT - 1) / PL_FRONT_UNIT);
}
static inline bool pl_front_has(const pl_front *front, size_t bytes)
{
    return bytes <= PL_FRONT_MOST_BYTES && front->magazines[pl_front_bin(bytes)].top != NULL;
}
/* False: it might lift a peak. */
static inline bool pl_front_use_room(pl_front *front, size_t bytes, size_t requested)
{
    int64_t room_n = front->room_n - 1;
    int64_t room_bytes = front->room_bytes - (int64_t)bytes;
    int64_t room_requested = front->room_requested - (int64_t)requested;

    if ((room_n | room_bytes | room_requested) < 0) {
        return false;
    }
    front->room_n = room_n;
    front->room_bytes = room_bytes;
    front->room_requested = room_requested;
    return true;
}
static inline void pl_front_add_heap(pl_front *front, size_t bytes, size_t requested)
{
    atomic_store_explicit(&front->has_room, true, memory_order_relaxed);
    front->room_n += 1;
    front->room_bytes += (int64_t)bytes;
    front->room_requested += (int64_t)requested;
}
static inline uint32_t pl_front_n_late(const pl_front *front)
{
    return atomic_load_explicit(&front->n_late, memory_order_relaxed);
}
/* Take out the first of n late blocks. The block is live. *is_counted: already counted as freed. */
static inline pl_late pl_front_take_late(pl_front *front, uint32_t n, bool *is_counted)
{
    pl_late late = front->late[front->first_late];

    front->first_late = (front->first_late + 1) % PL_FRONT_LATE;
    atomic_store_explicit(&front->n_late, n - 1, memory_order_relaxed);
    *is_counted = __builtin_expect(front->n_counted > 0, false);
    if (*is_counted) {
        front->n_counted--;
    }
    late.block->holder = NULL;
    return late;
}
/* Empty all fronts; unbind the fronts of a stream's first lane, 0 = all. May drop the lock. */
void pl_fronts_unbind(pl_space *space, uint32_t lane);
/* Give back tables of the map that a front may have been reading. */
void pl_fronts_discard_tables(pl_space *space);

#endif
