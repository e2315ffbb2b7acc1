/* shared_order.h - orders after other streams make shared blocks a stream's own.
 *
 * Guarded by the device lock; no function drops the lock. */
#ifndef PLEAT_SEGMENTS_SHARED_ORDER_H
#define PLEAT_SEGMENTS_SHARED_ORDER_H

#include "segments/pleat/space/space.h"

/* Make shared blocks pending memory of `user`. Each demand has passed, or is behind a tick that
 * `user` waits for on the GPU. Looks at a bounded number. is_private: also private pools' blocks.
 * Returns how many. */
size_t pl_shared_adopt(pl_space *space, pl_lane *user, bool is_private);
/* Find a lane that `user` must still be ordered after to get a block that waits for `other`. Ticks
 * must cover all demands of the block. NULL = none. Looks at a bounded number. */
pl_lane *pl_shared_missing(const pl_space *space, const pl_lane *user, const pl_lane *other,
                           bool is_private);

#endif
