/* shared_order.h - orders of a stream after others, for blocks that wait for several.
 *
 * Guarded by the device lock; no function drops it. */
#ifndef PLEAT_SEGMENTS_SHARED_ORDER_H
#define PLEAT_SEGMENTS_SHARED_ORDER_H

#include "segments/pleat/space.h"

/* `user` waits on the GPU for some lanes: blocks all of whose demands that meets are its pending
 * memory now. Looks at a bounded number. is_private: also private pools'. Returns how many. */
size_t pl_shared_adopt(pl_space *space, pl_lane *user, bool is_private);
/* A lane that `user` does not wait for yet, but must, with ticks that are recorded, to have one of
 * the blocks that wait for `other`; NULL = none. Looks at a bounded number. */
pl_lane *pl_shared_missing(const pl_space *space, const pl_lane *user, const pl_lane *other,
                           bool is_private);

#endif
