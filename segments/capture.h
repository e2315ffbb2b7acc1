/* capture.h - memory that a stream capture has seen.
 *
 * A graph bakes addresses in. A block allocated or freed while its stream is captured is kept after
 * its free (PL_BLOCK_KEPT: pinned, used by nobody, never taken) until the graph's owner says that
 * the graph is gone. So is one with a recorded use on another stream that is being captured when
 * the block is freed: it pends on that use (pl_use.is_captured). */
#ifndef PLEAT_SEGMENTS_CAPTURE_H
#define PLEAT_SEGMENTS_CAPTURE_H

#include "segments/space.h"

/* Is the stream being captured? The legacy default stream cannot be, and costs no driver call.
 * Called without the lock. */
pleat_status pl_capture_is_active(const pl_space *space, pl_stream *stream, bool *out);
/* Keep a block that is being freed for the capture of that lane's stream. */
void pl_capture_keep(pl_space *space, pl_block *b, pl_lane *capturing);

#endif
