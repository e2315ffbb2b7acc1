/* private.h - private pools: memory that a CUDA graph may keep using.
 *
 * A pool is a set of areas. Requests for a pool find fits and places in its areas only, and no
 * other request looks in them. Everything else is shared: the lock, the limit, lanes and ticks, the
 * budget, the chunks. A pool keeps nothing until a capture uses it, or a checkpoint is taken. Its
 * free memory serves everybody until then, as free memory of the default pool does. From then on
 * one rule keeps for the pool what a graph may touch, or a restore may make live again:
 *
 *   A granule in which a block of the pool has ended is owned, and never becomes loose.
 *
 * While a block lives, nothing takes its memory. Takes, trims and limits move loose granules only.
 * So owned granules stay pinned in place until the pool is released. The pool owns no further
 * granules: no graph has seen the rest of the memory in its segments, which serves everybody.
 *
 * Why at a block's end, and not at its birth: a graph may use blocks that were in the pool before
 * the capture. A block that had ended before is nobody's.
 *
 * Captures. On a stream that is being captured, a request uses settled memory. The request also
 * uses memory that the same stream freed during the capture: such memory pends on the stream's
 * second lane (lane.h). No block of a pool is captured (capture.h), as a pool exists to reuse its
 * memory.
 *
 * Release. Graphs may have been launched on any stream, known or not, and may still run. So a
 * released pool drains: until the driver has said that all graphs captured in the pool are gone
 * (vmm/streams/graph_watch.h), or until a tick of the context has passed. If the driver does not
 * watch all graphs of the pool, the tick is asked for at once. A draining pool's memory stays as it
 * was, but observers hear of the memory as the default pool's.
 *
 * A drained pool's areas become the default pool's: they go to space.places.released, where
 * requests look when memory is short. Their segments open: granules under free blocks become loose,
 * some at a time, and can be taken. A later pool may get a released area if no block in it is live,
 * shared, captured or in flight, if the blocks are few, and if no segment is opening. So neither
 * addresses nor areas add up, and resident memory serves again without a driver call. At first the
 * new pool owns nothing in the area. Until the new pool owns a granule, anyone may take the
 * granule's settled memory, and wait for its pending memory.
 *
 * Heaps. The blocks of a tag (heap.h) have areas of their own, too. Otherwise the blocks are like
 * the default pool's: for captures, for waits and for requests that need memory. So a heap is a
 * pool that keeps nothing, except while the heap is asleep. A heap stays until the device is
 * closed. */
#ifndef PLEAT_SEGMENTS_PRIVATE_H
#define PLEAT_SEGMENTS_PRIVATE_H

#include "segments/pleat/space/space.h"

/* I1  area->pool is the pool for each of its areas; `buffers` has those of PL_CLASS_BUFFER;
 *     is_private is set in the segments of pools that keep, and of heaps that have fallen asleep
 * I2  no block in them is captured, unless it drains; pending blocks that are is_private lie in
 *     owned granules only
 * I3  reserved.current is the sum of their granules with a chunk                              */
struct pl_private {
    LIST_ENTRY(pl_private) link;   /* in space.places.pools */
    struct pl_private *next;       /* in space.places.draining */
    uint64_t number;               /* const: from 1, in order of creation */
    pl_area *areas;                /* in which requests look */
    pl_area *buffers;              /* of a heap's buffers; may be very many */
    pleat_stat reserved;           /* bytes */
    uint64_t over_tick;            /* draining: drained when the context has passed this stamp */
    struct pl_capture_list graphs; /* captures with requests of the pool, whose graphs may live */
    size_t n_graphs;      /* number of captures in `graphs`: at 0 the pool is drained, too, ... */
    uint64_t n_captures;  /* all captures that `graphs` ever had */
    bool is_unwatched;    /* ... unless the driver does not watch some graph */
    bool is_draining;     /* released; told as the default pool's */
    struct pl_heap *heap; /* const: the heap's further state, heap.h; NULL = no heap */
    bool is_asleep;       /* a heap: going to sleep, asleep, or waking: serves no request */
    bool keeps; /* owns granules of blocks that end: its segments are private, and new ones, too */
};

/* A new pool, in the list; NULL: no host memory. */
pl_private *pl_private_make(pl_space *space);
/* A graph, or a restore, may need memory of the pool from now on, so the pool keeps it. */
void pl_private_keep(pl_private *pool);
/* The pool's segment behind `seg`; NULL asks for the first segment. Returns NULL behind the last.
 * Segments keep their order; a new segment comes first, or last in its area. */
pl_segment *pl_private_next_segment(const pl_private *pool, const pl_segment *seg);

/* The pool's area for the lane's stream and class: in use, released, or new. PLEAT_OK or
 * ENOMEM_HOST. */
pleat_status pl_private_area(pl_space *space, pl_private *pool, const pl_lane *lane, pl_class class,
                             pl_area **out);
/* Granules to reserve for a further segment of the area. */
size_t pl_private_want(const pl_space *space, const pl_area *area);
/* The area has no pool now: a later pool may get the area. */
void pl_private_release_area(pl_space *space, pl_area *area);
void pl_private_destroy_all(pl_space *space); /* released areas, too */
/* 0, or 1: an invariant is broken. */
int pl_private_check(const pl_space *space);

/* The pool that observers and snapshots see for the area; NULL = the default pool. */
static inline const pl_private *pl_private_told(const pl_area *area)
{
    return area->pool != NULL && !area->pool->is_draining && area->pool->heap == NULL ? area->pool
                                                                                      : NULL;
}

/* `in` bytes of the segment became resident, `out` bytes became holes. */
static inline void pl_private_count(const pl_segment *seg, uint64_t in, uint64_t out)
{
    if (__builtin_expect(pl_segment_is_apart(seg), false)) {
        pl_stat_add(&seg->area->pool->reserved, in);
        pl_stat_sub(&seg->area->pool->reserved, out);
    }
}

#endif
