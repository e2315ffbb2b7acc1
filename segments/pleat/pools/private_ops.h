/* private_ops.h - the operations on private pools: see private.h and base/allocator.h. */
#ifndef PLEAT_SEGMENTS_PRIVATE_OPS_H
#define PLEAT_SEGMENTS_PRIVATE_OPS_H

#include "segments/pleat/space/space.h"

/* A new pool, in the list; NULL: no host memory. Under the lock. */
pl_private *pl_private_make(pl_space *space);
pleat_status pl_pleat_private_open(pl_allocator *a, pl_private **out);
void pl_pleat_private_rest(pl_allocator *a, pl_private *pool);
void pl_pleat_private_release(pl_allocator *a, pl_private *pool);
uint64_t pl_pleat_private_gone(pl_allocator *a, pl_private *pool);
void pl_pleat_private_reserved(pl_allocator *a, pl_private *pool, pleat_stat out[PLEAT_N_SIZES]);

#endif
