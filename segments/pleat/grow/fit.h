/* fit.h - where a request looks for resident memory, and how its block is cut from it.
 *
 * A request gets the best fit among the memory that is settled or pends on its own lane: first in
 * the stream's own area, then in the pool's other areas of the class. Before it grows (grow.h) it
 * learns what has settled meanwhile. When it cannot grow by new chunks, it also uses the other
 * class's areas, and those that private pools left behind. */
#ifndef PLEAT_SEGMENTS_FIT_H
#define PLEAT_SEGMENTS_FIT_H

#include "segments/pleat/grow/grow.h"

/* Set where the request looks, from its bytes, pool and is_capturing. `plain` is the first lane of
 * the stream that it names. PLEAT_OK, or why there is no such lane or area. */
pleat_status pl_fit_prepare(pl_space *space, pl_lane *plain, pl_request *rq);
/* Find resident memory for the request, or grow. *out is a live block, not yet in the map of live
 * blocks. Called with the lock; may drop it. The caller holds the request's lane. PLEAT_OK,
 * ENOMEM_HOST, or the verdict of pl_grow_step. */
pleat_status pl_fit_find(pl_space *space, pl_request *rq, pl_block **out);

#endif
