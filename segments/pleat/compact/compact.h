/* compact.h - moving live blocks together: members of pl_pleat_ops.
 *
 * segments/base/allocator.h has what each promises. Each takes the space's lock, rank 20. */
#ifndef PLEAT_SEGMENTS_COMPACT_H
#define PLEAT_SEGMENTS_COMPACT_H

#include "segments/base/allocator.h"

pleat_status pl_pleat_compact(pl_allocator *a, size_t request, bool is_observed,
                              pleat_compaction *out);
void pl_pleat_count_tied(pl_allocator *a, pl_tied *out);

#endif
