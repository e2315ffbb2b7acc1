/* share_op.h - the pleat allocator tells the chunks under shared memory. */
#ifndef PLEAT_SEGMENTS_SHARE_OP_H
#define PLEAT_SEGMENTS_SHARE_OP_H

#include "segments/base/allocator.h"

pleat_status pl_pleat_share(pl_allocator *a, pleat_devptr ptr, uint64_t bytes, pl_share_list *out);
pleat_status pl_pleat_room_share(pl_allocator *a, pl_private *room, pl_share_list *out);

#endif
