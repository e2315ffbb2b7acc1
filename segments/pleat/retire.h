/* retire.h - the pleat allocator's answer to a stream that its owner is about to destroy. */
#ifndef PLEAT_SEGMENTS_RETIRE_H
#define PLEAT_SEGMENTS_RETIRE_H

#include "segments/base/allocator.h"

void pl_pleat_retire_stream(pl_allocator *a, pl_stream *stream);

#endif
