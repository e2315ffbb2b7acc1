/* quiet.h - finds loose chunks whose memory is over, for a trim. Guarded by the device lock. */
#ifndef PLEAT_SEGMENTS_PLEAT_GROW_QUIET_H
#define PLEAT_SEGMENTS_PLEAT_GROW_QUIET_H

#include "segments/pleat/space/space.h"

enum { PL_QUIET_CHUNKS = 64 }; /* most chunks of one answer */

/* The first loose granules of the segment, from *g on, whose free block is over: those of chunks
 * that are wholly in that one block and have n in all, but of not too many chunks. NULL: none. May
 * drop the lock on its way there. A torn segment is left alone: some of it is not mapped. */
pl_block *pl_quiet_next(pl_space *space, pl_segment *seg, size_t *g, size_t *n);

#endif
