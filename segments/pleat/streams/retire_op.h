/* retire_op.h - the owner of a stream says that the stream is about to be destroyed. */
#ifndef PLEAT_SEGMENTS_RETIRE_OP_H
#define PLEAT_SEGMENTS_RETIRE_OP_H

#include "segments/base/allocator.h"

void pl_pleat_retire_stream(pl_allocator *a, pl_stream *stream);
void pl_pleat_doubt_stream(pl_allocator *a, pl_stream *stream);

#endif
