/* shared_order.h - how orders after other streams make shared blocks a stream's own.
 *
 * Guarded by the device lock; no function drops it. */
#ifndef PLEAT_SEGMENTS_SHARED_ORDER_H
#define PLEAT_SEGMENTS_SHARED_ORDER_H

#include "segments/pleat/space/space.h"

/* Shared blocks whose demands have all passed, or are behind ticks that `user` waits for on the
 * GPU, become pending memory of `user`. Looks at a bounded number. is_private: also private pools'
 * blocks. Returns how many. */
size_t pl_shared_adopt(pl_space *space, pl_lane *user, bool is_private);
/* A lane that `user` still has to be ordered after to have one of the blocks that wait for `other`;
 * only blocks whose demands are all covered by ticks count. NULL = none. Looks at a bounded
 * number. */
pl_lane *pl_shared_missing(const pl_space *space, const pl_lane *user, const pl_lane *other,
                           bool is_private);

#endif
