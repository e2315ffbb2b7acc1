/* round.h - the bytes of a block for a request. */
#ifndef PLEAT_SEGMENTS_ROUND_H
#define PLEAT_SEGMENTS_ROUND_H

#include "segments/base/rounding.h"
#include "segments/pleat/space/space.h"

_Static_assert((int)PL_ROUNDING_QUANTUM == PL_BLOCK_QUANTUM, "sizes of blocks");

/* The bytes of a block for the request. */
static inline size_t pl_space_round(const pl_space *space, size_t requested)
{
    return __builtin_expect(space->is_rounding, false)
               ? pl_rounding_of(space->roundup_divisions, requested)
               : pl_rounding_up(requested, PL_BLOCK_QUANTUM);
}

#endif
