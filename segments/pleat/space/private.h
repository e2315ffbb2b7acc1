/* private.h - private pools: memory that a CUDA graph may keep using.
 *
 * A pool is a set of areas. Requests for a pool find fits and places in its areas only, and no
 * other request looks there. Everything else is shared: the lock, the limit, lanes and ticks, the
 * budget, the chunks. One rule keeps a pool's memory its own:
 *
 *   A granule in which a block of the pool has been is owned, and never becomes loose.
 *
 * Takes, trims and limits move loose granules only, so what the pool owns stays where it is,
 * pinned, until the pool is released. It owns no more: what lies in its segments beside that, and
 * what a request that failed had reserved there, is everybody's.
 *
 * Captures. On a stream that is being captured a request uses settled memory, and memory that the
 * same stream freed during the capture, which pends on the stream's second lane (lane.h). No block
 * of a pool is kept (capture.h): reuse within the pool is what the pool is for.
 *
 * Release. Graphs may have been launched on any stream, known or not, and may still run. So a
 * released pool drains until the driver has said that all graphs captured in it are gone
 * (vmm/graph_watch.h), or until a tick of the context has passed. If the driver does not watch all
 * its graphs, that tick is asked for at once. A draining pool's memory stays as it was, but is told
 * as the default pool's. After that its areas become the default pool's: they go to space.released,
 * where requests look when memory is short, and their segments open: granules under free blocks
 * become loose, some at a time, and can be taken. A later pool is given such an area if none of its
 * blocks is live, shared, kept or in flight, they are not very many, and none of its segments is
 * opening: so neither addresses nor areas add up, and memory that is still resident there serves
 * again without a driver call. The new pool owns nothing of it yet: what is settled there anyone
 * may take, and what pends anyone may wait for, until a block of the new pool has been there.
 *
 * Rooms. The blocks of a tag (room.h) have areas of their own, too, but are otherwise as those of
 * the default pool: to captures, to waits and to who needs memory. So a room is a pool that keeps
 * nothing, except while it is asleep; and it stays until the device is closed. */
#ifndef PLEAT_SEGMENTS_PRIVATE_H
#define PLEAT_SEGMENTS_PRIVATE_H

#include "segments/pleat/space/space.h"

/* I1  area->pool is the pool for each of its areas; is_apart is set in all their segments and in no
 *     others, is_private in those of pools, and of rooms that have fallen asleep; `buffers` has
 *     those of PL_CLASS_BUFFER
 * I2  no block in them is kept, unless it drains; pending blocks that are is_private lie in owned
 *     granules only
 * I3  reserved.current is the sum of their granules with a chunk                              */
struct pl_private {
    struct pl_private *next;   /* in space.pools or space.draining */
    struct pl_private *prev;   /* in space.pools */
    uint64_t number;           /* const: from 1, in order of creation */
    pl_area *areas;            /* in which requests look */
    pl_area *buffers;          /* a room: of its buffers; there may be very many */
    pleat_stat reserved;       /* bytes */
    uint64_t over_tick;        /* draining: it is drained when the context has passed this stamp */
    struct pl_capture *graphs; /* captures of its requests whose graphs may live */
    size_t n_graphs;           /* captures in it: at 0 it is drained, too, */
    uint64_t n_captures;       /* all that were ever in that list */
    bool is_unwatched;         /* unless there was a graph that the driver does not watch */
    bool is_draining;          /* released; its memory is told as the default pool's */
    struct pl_room *room;      /* const: what a room has beside this, room.h; NULL = no room */
    bool is_asleep;            /* a room: going to sleep, asleep, or waking: no request is served */
    bool is_held;              /* a room: new segments are private; so are all while it sleeps */
};

/* Does it own granules? A room that is asleep owns all of its own. */
static inline bool pl_private_keeps(const pl_private *pool)
{
    return pool->room == NULL || pool->is_held;
}

/* The pool's segment behind `seg`; NULL asks for the first segment. Returns NULL behind the last.
 * Segments keep their order; a new segment comes first, or behind the others of its area. */
pl_segment *pl_private_next_segment(const pl_private *pool, const pl_segment *seg);

/* The pool whose graphs keep its memory; NULL for a room, which is no matter to captures. */
static inline pl_private *pl_private_of_graphs(pl_private *pool)
{
    return pool != NULL && pool->room == NULL ? pool : NULL;
}

/* The pool's area of the lane's stream and class: its own, one that was released, or a new one.
 * PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_private_area(pl_space *space, pl_private *pool, const pl_lane *lane, pl_class class,
                             pl_area **out);
/* Granules to reserve for one more segment of the area. */
size_t pl_private_want(const pl_space *space, const pl_area *area);
/* The area is of no pool now: a later pool may have it. */
void pl_private_release_area(pl_space *space, pl_area *area);
void pl_private_destroy_all(pl_space *space); /* with the areas that were released */
/* 0, or 1: an invariant is broken. */
int pl_private_check(const pl_space *space);

/* The pool that observers and snapshots are told for the area; NULL = the default one. */
static inline const pl_private *pl_private_told(const pl_area *area)
{
    return area->pool != NULL && !area->pool->is_draining && area->pool->room == NULL ? area->pool
                                                                                      : NULL;
}

/* `in` bytes of the segment became resident, `out` bytes became holes. */
static inline void pl_private_count(const pl_segment *seg, uint64_t in, uint64_t out)
{
    if (__builtin_expect(seg->is_apart, false)) {
        pl_stat_add(&seg->area->pool->reserved, in);
        pl_stat_sub(&seg->area->pool->reserved, out);
    }
}

#endif
