/* rounding_op.h - a function of pl_allocator_ops: how far requests are rounded up from now on. */
#ifndef PLEAT_SEGMENTS_ROUNDING_OP_H
#define PLEAT_SEGMENTS_ROUNDING_OP_H

#include "segments/base/allocator.h"

void pl_pleat_set_rounding(pl_allocator *a, const unsigned divisions[PL_N_DIVISIONS]);

#endif
