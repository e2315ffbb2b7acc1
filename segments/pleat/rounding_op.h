/* rounding_op.h - how far requests are rounded up, which may change while the space is in use. */
#ifndef PLEAT_SEGMENTS_ROUNDING_OP_H
#define PLEAT_SEGMENTS_ROUNDING_OP_H

#include "segments/base/rounding.h"
#include "segments/pleat/space.h"

_Static_assert((int)PL_ROUNDING_QUANTUM == PL_BLOCK_QUANTUM, "sizes of blocks");

/* The bytes of a block for such a request. */
static inline size_t pl_space_round(const pl_space *space, size_t requested)
{
    return __builtin_expect(space->is_rounding, false)
               ? pl_rounding_of(space->roundup_divisions, requested)
               : pl_rounding_up(requested, PL_BLOCK_QUANTUM);
}

void pl_pleat_set_rounding(pl_allocator *a, const unsigned divisions[PL_N_DIVISIONS]);

#endif
