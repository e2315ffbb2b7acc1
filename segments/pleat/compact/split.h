/* split.h - a chunk that is partly in use is replaced by smaller ones under what is used.
 *
 *   before  |#### 64 MiB: live | vacant | vacant | vacant | live | vacant | vacant | vacant ####|
 *   after   |#### 8 MiB: live #|......... hole .........|# live #|......... hole ..............|
 *
 * Of the granules of the chunk, those that are not vacant get new chunks, as few as cover them. The
 * new chunks are mapped at scratch addresses, filled there, and mapped in the place of the old one,
 * which goes back to the driver. So addresses and contents stay, but the caller must know that no
 * work runs on the device meanwhile.
 *
 * Every function here is called with the space's lock held; pl_split_chunk drops it for its driver
 * calls. Others may allocate and free in the chunk meanwhile, except where it loses its memory. */
#ifndef PLEAT_SEGMENTS_SPLIT_H
#define PLEAT_SEGMENTS_SPLIT_H

#include "segments/pleat/space/space.h"

/* Is the chunk that begins at the address partly in use, so that it could be split? *n_kept is set
 * to the granules that it would keep. */
bool pl_split_is_worth_it(const pl_space *space, pleat_devptr at, size_t *n_kept);
/* Split that chunk, if it still can be: where others hold it, it stays. Adds to *told what was
 * done. May make room first. PLEAT_OK. ENOMEM_DEVICE (no room for the new
 * chunks), ENOMEM_HOST, ENOTSUP, ECAPTURE, EDRIVER: the chunk is as before. EPOISONED: the space is
 * torn, or the scratch addresses stay mapped. */
pleat_status pl_split_chunk(pl_space *space, pleat_devptr at, pleat_compaction *told);

#endif
