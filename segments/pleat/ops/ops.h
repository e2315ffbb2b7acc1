/* ops.h - operations of the pleat allocator that are not in ops.c. */
#ifndef PLEAT_SEGMENTS_OPS_H
#define PLEAT_SEGMENTS_OPS_H

#include "segments/base/allocator.h"

/* lifecycle.c */
pleat_status pl_pleat_create(pl_device *dev, const pl_allocator_options *options,
                             pl_allocator **out);
pleat_status pl_pleat_destroy(pl_allocator *a, bool force, size_t *n_live, size_t *n_leaked);

#endif
