/* owner_ops.h - operations that name a stream or a capture: members of pl_pleat_ops.
 *
 * segments/base/allocator.h has what each promises. Each takes the space's lock, rank 20. */
#ifndef PLEAT_SEGMENTS_OWNER_OPS_H
#define PLEAT_SEGMENTS_OWNER_OPS_H

#include "segments/base/allocator.h"

void pl_pleat_retire_stream(pl_allocator *a, pl_stream *stream);
pleat_status pl_pleat_release_capture_of(pl_allocator *a, void *handle);
void pl_pleat_let_captures_go(pl_allocator *a);
void pl_pleat_expect_captures(pl_allocator *a, bool is_expected);

#endif
