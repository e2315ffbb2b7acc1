/* pool_ops.h - operations on private pools: members of pl_pool_ops.
 *
 * segments/base/allocator.h has what each promises. Each takes the space's lock, rank 20. */
#ifndef PLEAT_SEGMENTS_POOL_OPS_H
#define PLEAT_SEGMENTS_POOL_OPS_H

#include "segments/base/allocator.h"

/* private_ops.c, checkpoint.c, restore.c */
pleat_status pl_pleat_private_open(pl_allocator *a, pl_keeper **out);
void pl_pleat_private_rest(pl_allocator *a, pl_keeper *pool);
void pl_pleat_private_release(pl_allocator *a, pl_keeper *pool);
uint64_t pl_pleat_private_gone(pl_allocator *a, pl_keeper *pool);
void pl_pleat_private_reserved(pl_allocator *a, pl_keeper *pool, pleat_stat out[PLEAT_N_SIZES]);
pleat_status pl_pleat_private_save(pl_allocator *a, pl_keeper *pool, pl_roster *out);
void pl_pleat_roster_drop(pl_allocator *a, pl_roster *roster);
pleat_status pl_pleat_private_restore(pl_allocator *a, pl_keeper *pool, const pl_roster *saved,
                                      bool is_settled, pl_restored *out);
pleat_status pl_pleat_private_alloc_at(pl_allocator *a, pl_keeper *pool, pleat_devptr base,
                                       size_t bytes, pl_stream *stream);

#endif
