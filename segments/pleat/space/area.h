/* area.h - the segments of a pool and size class where requests of a stream look first.
 *
 * An area is no wall within its pool: settled memory of any area serves any stream. A pool has at
 * most PL_MOST_AREAS areas of a class. Further streams share these areas, and a stream that is gone
 * leaves its place to the next.
 *
 * An area's index 0 holds its settled blocks. A pending block is in the index of its lane (lane.h).
 * A keeper's areas (keeper.h) are searched by the keeper's requests only: there a pending block is
 * in the area's index for the block's lane. */
#ifndef PLEAT_SEGMENTS_AREA_H
#define PLEAT_SEGMENTS_AREA_H

#include <sys/queue.h>

#include "segments/pleat/space/segment.h"

/* The areas of buffers are a class of their own, in no list, as requests look in the small and
 * large class only. So free memory in a buffer serves requests by its chunks, never by its
 * addresses. */
typedef enum pl_class {
    PL_CLASS_SMALL, /* requests below pl_space.small_bytes; more in private pools: fit.c */
    PL_CLASS_LARGE,
    PL_N_CLASSES, /* in which requests look */
    PL_CLASS_BUFFER = PL_N_CLASSES,
} pl_class;

enum { PL_MOST_AREAS = 16 };

LIST_HEAD(pl_area_list, pl_area);
LIST_HEAD(pl_keeper_list, pl_keeper);
LIST_HEAD(pl_capture_list, pl_capture);

typedef struct pl_area {
    pl_segment *segments; /* in order of creation */
    pl_segment *newest;
    struct pl_keeper *keeper; /* keeper.h; NULL = none: the default pool's */
    struct pl_area *next;     /* the keeper's, or in space.places.released */
    pl_stream *stream;        /* the stream that visits name; const, except of a keeper */
    pl_class class;           /* likewise */
    unsigned n_lanes;         /* lanes whose requests look here first */
    uint32_t lane;            /* a keeper's or released: the plain lane of `stream` */
    uint32_t n_runs;          /* room of `runs` */
    pl_index **runs;      /* by lane; NULL = none yet; beyond 0 only if it has, or had, a keeper */
    pl_block_queue holes; /* in no order */
    size_t n_used;        /* blocks that are live, shared or captured */
    size_t n_seen_used;   /* the walker's recount */
    struct pl_buffer *buffer;      /* const: of PL_CLASS_BUFFER, see buffer.h; else NULL */
    struct pl_area_list *rests_in; /* list to enter when n_used falls to 0; NULL = none */
    LIST_ENTRY(pl_area) rest;      /* in that list */
    struct pl_area **slot;      /* of a heap's buffer: the pointer to the area in the heap's list */
    struct pl_area *next_noted; /* buffer.h */
    bool is_noted;
} pl_area;

pl_area *pl_area_create(pl_meta *meta, pl_stream *stream, pl_class class); /* NULL: no memory */
void pl_area_destroy(pl_meta *meta, pl_area *area);
/* Have an index for `lane` and index 0. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_area_reserve_index(pl_meta *meta, pl_area *area, uint32_t lane);

/* Enter or leave a list that areas leave in any order. */
static inline void pl_area_link(pl_area *area, pl_area **list)
{
    area->next = *list;
    area->slot = list;
    if (*list != NULL) {
        (*list)->slot = &area->next;
    }
    *list = area;
}

/* Is the segment a private pool's, or a heap's? */
static inline bool pl_segment_is_apart(const pl_segment *seg)
{
    return seg->area->keeper != NULL;
}

static inline pl_index *pl_area_runs(const pl_area *area, uint32_t lane)
{
    return lane < area->n_runs ? area->runs[lane] : NULL;
}

#endif
