/* fit.h - how a request finds resident memory, and cuts its block out.
 *
 * A request gets the best fit among settled memory and memory that pends on its own lane. The
 * stream's own area comes first, then the pool's further areas of the class. Before a request grows
 * (grow.h), pleat looks for memory that has settled meanwhile. A request that cannot grow by new
 * chunks also uses the other class's areas, and areas that private pools left behind. */
#ifndef PLEAT_SEGMENTS_FIT_H
#define PLEAT_SEGMENTS_FIT_H

#include "segments/pleat/grow/grow.h"

/* Set where the request looks, from the request's bytes, pool and is_capturing. `plain` is the
 * first lane of the stream that the request names. PLEAT_OK, or why no lane or area could be
 * had. */
pleat_status pl_fit_prepare(pl_space *space, pl_lane *plain, pl_request *rq);
/* Find resident memory for the request, or grow. *out is a live block, not yet in the map of live
 * blocks. Called with the lock; may drop the lock. The caller holds the request's lane. PLEAT_OK,
 * ENOMEM_HOST, or the verdict of pl_grow_step. */
pleat_status pl_fit_find(pl_space *space, pl_request *rq, pl_block **out);

#endif
