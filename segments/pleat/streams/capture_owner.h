/* capture_owner.h - owners of captures say that a capture may begin, or that a graph is gone. */
#ifndef PLEAT_SEGMENTS_CAPTURE_OWNER_H
#define PLEAT_SEGMENTS_CAPTURE_OWNER_H

#include "segments/pleat/streams/capture.h"

/* The owner of the oldest graph captured on the stream says that the graph is gone. PLEAT_OK;
 * ECAPTURE (the capture is under way); else why the driver did not answer. */
pleat_status pl_pleat_release_capture(pl_allocator *a, pl_stream *stream);
pleat_status pl_pleat_release_capture_of(pl_allocator *a, void *handle);
/* Captures that have ended keep no memory of the default pool from now on. */
void pl_pleat_let_captures_go(pl_allocator *a);
/* From now on the program's threads may capture, or may not any more: see allocator.h. */
void pl_pleat_expect_captures(pl_allocator *a, bool is_expected);

#endif
