/* share_op.h - the pleat allocator tells which chunks are under a block that is shared. */
#ifndef PLEAT_SEGMENTS_SHARE_OP_H
#define PLEAT_SEGMENTS_SHARE_OP_H

#include "segments/base/allocator.h"

pleat_status pl_pleat_share(pl_allocator *a, pleat_devptr ptr, pl_shared_chunk *out,
                            size_t capacity, size_t *n, pleat_devptr *base, pleat_block_info *info);

#endif
