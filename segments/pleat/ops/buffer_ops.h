/* buffer_ops.h - operations of the pleat allocator on buffers (buffer.h). */
#ifndef PLEAT_SEGMENTS_BUFFER_OPS_H
#define PLEAT_SEGMENTS_BUFFER_OPS_H

#include "segments/base/allocator.h"

pleat_status pl_pleat_buffer_open(pl_allocator *a, pl_private *room, size_t most_bytes,
                                  size_t page_bytes, pleat_devptr *out);
pleat_status pl_pleat_buffer_change(pl_allocator *a, const pl_buffer_change *change,
                                    pl_stream *stream);
pleat_status pl_pleat_buffer_query(pl_allocator *a, pleat_devptr ptr, pleat_buffer_info *out);

#endif
