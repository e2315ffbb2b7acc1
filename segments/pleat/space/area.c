/* area.c - see area.h. Guarded by the device lock. */
#include "segments/pleat/space/area.h"

#include <string.h>

pl_area *pl_area_create(pl_meta *meta, pl_stream *stream, pl_class class)
{
    pl_area *area = pl_meta_calloc(meta, 1, sizeof(*area));

    if (area == NULL) {
        return NULL;
    }
    area->stream = stream;
    area->class = class;
    if (pl_area_reserve_index(meta, area, PL_LANE_SETTLED) != PLEAT_OK) {
        pl_area_destroy(meta, area);
        return NULL;
    }
    return area;
}

void pl_area_destroy(pl_meta *meta, pl_area *area)
{
    while (area->segments != NULL) {
        pl_segment *seg = area->segments;
        area->segments = seg->next;
        pl_segment_destroy(meta, seg);
    }
    for (uint32_t i = 0; i < area->n_runs; i++) {
        pl_meta_free(meta, area->runs[i]);
    }
    pl_meta_free(meta, area->runs);
    pl_meta_free(meta, area);
}

static pleat_status add_index(pl_meta *meta, pl_area *area, uint32_t lane)
{
    if (area->runs[lane] == NULL) {
        area->runs[lane] = pl_meta_calloc(meta, 1, sizeof(pl_index));
    }
    return area->runs[lane] != NULL ? PLEAT_OK : PLEAT_ENOMEM_HOST;
}

pleat_status pl_area_reserve_index(pl_meta *meta, pl_area *area, uint32_t lane)
{
    if (lane >= area->n_runs) {
        uint32_t n = lane + 4;
        pl_index **grown = pl_meta_realloc(meta, area->runs, n * sizeof(pl_index *));
        if (grown == NULL) {
            return PLEAT_ENOMEM_HOST;
        }
        memset(grown + area->n_runs, 0, (n - area->n_runs) * sizeof(pl_index *));
        area->runs = grown;
        area->n_runs = n;
    }
    pleat_status st = add_index(meta, area, PL_LANE_SETTLED);
    return st == PLEAT_OK ? add_index(meta, area, lane) : st;
}
