/* restore.h - making a private pool's live blocks equal to a roster again.
 *
 * First the pool is surveyed in address order, with every step that can fail. Free memory under
 * blocks of the roster goes in flight, live blocks that the roster lacks are claimed, and all host
 * memory is reserved. A failure undoes the survey. Then the claimed blocks are freed, and the
 * pieces in flight become live. The lock is dropped at intervals throughout. Meanwhile the caller
 * lets nobody allocate in the pool.
 *
 * An allocation at a given address works likewise, for a roster of one block. But nothing is
 * claimed, and memory that pends elsewhere is not taken. */
#ifndef PLEAT_SEGMENTS_RESTORE_H
#define PLEAT_SEGMENTS_RESTORE_H

#include "segments/pleat/pools/checkpoint.h"

pleat_status pl_pleat_private_restore(pl_allocator *a, pl_private *pool, const pl_roster *saved,
                                      bool is_settled, pl_restored *out);

pleat_status pl_pleat_private_alloc_at(pl_allocator *a, pl_private *pool, pleat_devptr base,
                                       size_t bytes, pl_stream *stream);

#endif
