/* compact.h - compaction at a safe point: a function of pl_allocator_ops. */
#ifndef PLEAT_SEGMENTS_COMPACT_H
#define PLEAT_SEGMENTS_COMPACT_H

#include "segments/base/allocator.h"

pleat_status pl_pleat_compact(pl_allocator *a, pleat_compaction *out);

#endif
