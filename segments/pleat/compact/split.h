/* split.h - replace a chunk that is partly in use by smaller chunks under the granules in use.
 *
 *   before  |#### 64 MiB: live | vacant | vacant | vacant | live | vacant | vacant | vacant ####|
 *   after   |#### 8 MiB: live #|......... hole .........|# live #|......... hole ..............|
 *
 * Granules of the chunk that are not vacant get new chunks, as few as possible. The new chunks are
 * mapped at scratch addresses and filled. Then they are mapped in the place of the old chunk, which
 * goes back to the driver. So addresses and contents stay. The caller must know that no work runs
 * on the device meanwhile.
 *
 * Every function here is called with the space's lock held. pl_split_chunk drops the lock for
 * driver calls. Others may allocate and free in the chunk meanwhile, but not in the granules that
 * lose their memory. */
#ifndef PLEAT_SEGMENTS_SPLIT_H
#define PLEAT_SEGMENTS_SPLIT_H

#include "segments/pleat/space/space.h"

/* Is the chunk at the address partly in use, so that a split may help? *n_kept: the number of
 * granules to keep. */
bool pl_split_is_worth_it(const pl_space *space, pleat_devptr at, size_t *n_kept);
/* Split the chunk at the address, if a split is still possible. A chunk held by others stays. Adds
 * the work done to *told. May make room first. PLEAT_OK. ENOMEM_DEVICE (no room for the new
 * chunks), ENOMEM_HOST, ENOTSUP, ECAPTURE, EDRIVER: the chunk is as before. EPOISONED: the space is
 * torn, or the scratch addresses stay mapped. */
pleat_status pl_split_chunk(pl_space *space, pleat_devptr at, pleat_compaction *told);

#endif
