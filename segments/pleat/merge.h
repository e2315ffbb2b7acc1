/* merge.h - a compaction lets pairs of partly used granules share the memory of one (twin.h). */
#ifndef PLEAT_SEGMENTS_MERGE_H
#define PLEAT_SEGMENTS_MERGE_H

#include "segments/pleat/space.h"

/* Merge what finds a partner. Called with the space's lock held, while no work runs on the device;
 * drops it. The lock is kept during the driver calls of one pair. Adds to *told what was done.
 * PLEAT_OK; ENOMEM_HOST; ENOTSUP; ECAPTURE; EDRIVER: the pair is as before; EPOISONED: the space is
 * torn. */
pleat_status pl_merge_granules(pl_space *space, pleat_compaction *told);

#endif
