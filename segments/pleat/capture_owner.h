/* capture_owner.h - captures whose owner says that their graph is gone. */
#ifndef PLEAT_SEGMENTS_CAPTURE_OWNER_H
#define PLEAT_SEGMENTS_CAPTURE_OWNER_H

#include "segments/pleat/capture.h"

/* The graph captured with that stream's handle is gone, says its owner. PLEAT_OK; ECAPTURE. */
pleat_status pl_pleat_release_capture_of(pl_allocator *a, void *handle);
/* No capture that has ended keeps memory of the default pool any more. */
void pl_pleat_let_captures_go(pl_allocator *a);

#endif
