/* quiet.h - finds loose chunks whose memory is over, for a trim. Guarded by the device lock. */
#ifndef PLEAT_SEGMENTS_PLEAT_GROW_QUIET_H
#define PLEAT_SEGMENTS_PLEAT_GROW_QUIET_H

#include "segments/pleat/space/space.h"

enum { PL_QUIET_CHUNKS = 64 }; /* most chunks of one answer */

/* Find the first loose granules of the segment, from *g on, in a free block whose uses are over.
 * *n: wanted; set to the granules of whole chunks in the block, at most PL_QUIET_CHUNKS chunks.
 * NULL: none. May drop the lock. A torn segment is skipped, as a part of the segment is not
 * mapped. */
pl_block *pl_quiet_next(pl_space *space, pl_segment *seg, size_t *g, size_t *n);

#endif
