/* compact.h - compaction: chunks that are partly in use give back the rest of their memory. */
#ifndef PLEAT_SEGMENTS_COMPACT_H
#define PLEAT_SEGMENTS_COMPACT_H

#include "segments/base/allocator.h"

/* See pl_allocator_ops.compact. */
pleat_status pl_pleat_compact(pl_allocator *a, pleat_compaction *out);

#endif
