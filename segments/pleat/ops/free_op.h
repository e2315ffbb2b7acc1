/* free_op.h - how a block is freed, and how a use is recorded: members of pl_pleat_ops, with their
 * promises in segments/base/allocator.h. Every function takes the space's lock. */
#ifndef PLEAT_SEGMENTS_FREE_OP_H
#define PLEAT_SEGMENTS_FREE_OP_H

#include "segments/pleat/space/space.h"

pleat_status pl_pleat_free(pl_allocator *a, pleat_devptr ptr, pl_stream *stream);
pleat_status pl_pleat_free_asked(pl_allocator *a, pleat_devptr ptr, pl_stream *stream,
                                 const pl_capture_info *asked);
pleat_status pl_pleat_free_own(pl_allocator *a, pleat_devptr ptr);
pleat_status pl_pleat_record_stream(pl_allocator *a, pleat_devptr ptr, pl_stream *stream);

#endif
