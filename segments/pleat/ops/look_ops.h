/* look_ops.h - the pleat allocator's answers about itself: calls of pl_allocator_ops without
 * changes, except to peaks. */
#ifndef PLEAT_SEGMENTS_LOOK_OPS_H
#define PLEAT_SEGMENTS_LOOK_OPS_H

#include "segments/base/allocator.h"

pleat_status pl_pleat_query(pl_allocator *a, pleat_devptr ptr, pleat_block_info *out);
int pl_pleat_check(pl_allocator *a);
void pl_pleat_stats(pl_allocator *a, pleat_stats *out);
void pl_pleat_reset_peaks(pl_allocator *a);
void pl_pleat_visit(pl_allocator *a, void (*see)(void *context, const pl_piece *piece),
                    void *context);
bool pl_pleat_visit_some(pl_allocator *a, pleat_devptr *from,
                         void (*see)(void *context, const pl_piece *piece), void *context);

#endif
