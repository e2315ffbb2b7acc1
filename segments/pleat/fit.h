/* fit.h - where a request looks for memory that is resident, and what it takes of it.
 *
 * The best fit counts, of what has settled or pends on the request's own lane: first in the
 * stream's own area, then in the pool's other areas of the class. Before it grows (grow.h) it
 * learns what has settled meanwhile. When it cannot, the other class's areas will do, and what
 * private pools left behind. */
#ifndef PLEAT_SEGMENTS_FIT_H
#define PLEAT_SEGMENTS_FIT_H

#include "segments/pleat/grow.h"

/* Where the request looks: needs its bytes, pool and is_capturing. `plain` is the lane of the
 * stream that it names. PLEAT_OK, or why there is no such lane or area. */
pleat_status pl_fit_prepare(pl_space *space, pl_lane *plain, pl_request *rq);
/* *out is a live block, not yet in the map of live blocks, resident before or grown. Called with
 * the lock; may drop it. The caller holds the request's lane. PLEAT_OK, ENOMEM_HOST, or the verdict
 * of pl_grow_step. */
pleat_status pl_fit_find(pl_space *space, pl_request *rq, pl_block **out);

#endif
