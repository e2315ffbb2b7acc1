/* scratch.h - addresses where a compaction fills chunks, and memory that a compaction has torn.
 *
 * Every function here is called with the space's lock held, and drops the lock. */
#ifndef PLEAT_SEGMENTS_SCRATCH_H
#define PLEAT_SEGMENTS_SCRATCH_H

#include "segments/pleat/space/space.h"

/* Reserve addresses for chunks of the order. PLEAT_OK; ENOSPACE_VA; EPOISONED (addresses of an
 * earlier compaction cannot be unmapped); EDRIVER. */
pleat_status pl_scratch_open(pl_space *space, unsigned order);
/* Give the addresses back. PLEAT_OK; EPOISONED: the addresses are still mapped. */
pleat_status pl_scratch_close(pl_space *space);

/* Map what is torn. Drops the lock. PLEAT_OK; EPOISONED. */
pleat_status pl_torn_mend(pl_space *space);

#endif
