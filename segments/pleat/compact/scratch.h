/* scratch.h - addresses where a compaction fills chunks, and what it could not undo.
 *
 * Every function here is called with the space's lock held, and drops it. */
#ifndef PLEAT_SEGMENTS_SCRATCH_H
#define PLEAT_SEGMENTS_SCRATCH_H

#include "segments/pleat/space/space.h"

/* Have addresses for chunks of that order. PLEAT_OK; ENOSPACE_VA; EPOISONED (an earlier
 * compaction's cannot be unmapped); EDRIVER. */
pleat_status pl_scratch_open(pl_space *space, unsigned order);
/* Give them back. PLEAT_OK; EPOISONED: they are still mapped. */
pleat_status pl_scratch_close(pl_space *space);

/* Map what is torn. Drops the lock. PLEAT_OK; EPOISONED. */
pleat_status pl_torn_mend(pl_space *space);

#endif
