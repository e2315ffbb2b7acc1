/* restore.h - making a private pool's live blocks those of a roster again.
 *
 * First all is looked at, in address order, and everything that can fail is done: what the roster's
 * blocks need of free memory goes in flight, live blocks that it lacks are claimed, and all host
 * memory is reserved. A failure undoes that. Then the claimed blocks are freed, and those in flight
 * become live. The lock is dropped at intervals throughout; the caller sees to it that nobody
 * allocates in the pool meanwhile.
 *
 * An allocation at a given address is the same for a roster of one block, but nothing is claimed,
 * and memory that pends elsewhere is not taken. */
#ifndef PLEAT_SEGMENTS_RESTORE_H
#define PLEAT_SEGMENTS_RESTORE_H

#include "segments/pleat/pools/checkpoint.h"

pleat_status pl_pleat_private_restore(pl_allocator *a, pl_private *pool, const pl_roster *saved,
                                      bool is_settled, pl_restored *out);

pleat_status pl_pleat_private_alloc_at(pl_allocator *a, pl_private *pool, pleat_devptr base,
                                       size_t bytes, pl_stream *stream);

#endif
