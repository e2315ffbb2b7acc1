/* area.h - the segments of one pool and size class where requests of a stream look first.
 *
 * Within a pool not a wall: settled memory of any area serves any stream. In a pool there are at
 * most PL_MOST_AREAS of a class: further streams share them, and a stream that is gone leaves its
 * place to the next.
 *
 * An area's index 0 holds its settled blocks. What pends is in the index of its lane (lane.h); in a
 * private pool's area, where no other pool looks, in an index of the area for that lane. */
#ifndef PLEAT_SEGMENTS_AREA_H
#define PLEAT_SEGMENTS_AREA_H

#include "segments/pleat/segment.h"

typedef enum pl_class { PL_CLASS_SMALL, PL_CLASS_LARGE, PL_N_CLASSES } pl_class;

enum { PL_MOST_AREAS = 16 };

typedef struct pl_area {
    pl_segment *segments; /* in order of creation */
    pl_segment *newest;
    struct pl_private *pool; /* NULL = the default one */
    struct pl_area *next;    /* in its private pool, or of those that were in one */
    pl_stream *stream;       /* the one it is told to serve first; const, except a private one's */
    pl_class class;          /* likewise */
    unsigned n_lanes;        /* whose requests look here first */
    uint32_t lane;           /* a private pool's, or one released: of its stream, the plain one */
    uint32_t n_runs;         /* room of `runs` */
    pl_index **runs;         /* by lane; NULL = none yet; beyond 0 in private pools only */
    pl_block_queue holes;    /* in no order */
    size_t n_used;           /* blocks that are live, shared or kept */
} pl_area;

pl_area *pl_area_create(pl_host *host, pl_stream *stream, pl_class class); /* NULL: no memory */
void pl_area_destroy(pl_host *host, pl_area *area);
/* Have an index for `lane` and for 0. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_area_reserve_index(pl_host *host, pl_area *area, uint32_t lane);

static inline pl_index *pl_area_runs(const pl_area *area, uint32_t lane)
{
    return lane < area->n_runs ? area->runs[lane] : NULL;
}

#endif
