/* area.h - the segments of one pool, stream and size class: where requests of that stream look
 * first.
 *
 * Within a pool not a wall: settled memory of any area serves any stream. For each lane there is an
 * index of the runs it may use here, index 0 holding the settled blocks. */
#ifndef PLEAT_SEGMENTS_AREA_H
#define PLEAT_SEGMENTS_AREA_H

#include "segments/segment.h"

typedef enum pl_class { PL_CLASS_SMALL, PL_CLASS_LARGE, PL_N_CLASSES } pl_class;

typedef struct pl_area {
    pl_segment *segments; /* in order of creation */
    pl_segment *newest;
    struct pl_private *pool; /* NULL = the default one */
    struct pl_area *next;    /* in its private pool, or of those that were in one */
    uint32_t lane;           /* const, but for areas that change their pool, as is the next */
    pl_class class;
    uint32_t n_runs;      /* room of `runs` */
    pl_index **runs;      /* by lane; NULL = none yet */
    pl_block_queue holes; /* in no order */
} pl_area;

pl_area *pl_area_create(pl_host *host, uint32_t lane, pl_class class); /* NULL: no host memory */
void pl_area_destroy(pl_host *host, pl_area *area);
/* Have an index for `lane` and for 0. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_area_reach(pl_host *host, pl_area *area, uint32_t lane);

static inline pl_index *pl_area_runs(const pl_area *area, uint32_t lane)
{
    return lane < area->n_runs ? area->runs[lane] : NULL;
}

#endif
