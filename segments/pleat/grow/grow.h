/* grow.h - how a request that no resident run can hold gets memory, or a true refusal. */
#ifndef PLEAT_SEGMENTS_GROW_H
#define PLEAT_SEGMENTS_GROW_H

#include "segments/pleat/grow/request.h"

/* Could idle and new chunks cover the request's bytes? */
bool pl_grow_can_create(const pl_space *space, const pl_request *rq);
/* Make the indexes in `area` that the request's freed block will need. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_grow_reserve_index(pl_space *space, const pl_request *rq, pl_area *area);
/* One attempt. Called with the lock; may drop the lock. The caller has no reservation or flight. */
pl_step pl_grow_step(pl_space *space, pl_request *rq, pl_block **out, pleat_status *st);

/* ---- fit.c: what is resident ----
 *
 * How a request finds resident memory, and cuts its block out.
 *
 * A request gets the best fit among settled memory and memory that pends on its own lane. The
 * stream's own area comes first, then the pool's further areas of the class. Before a request
 * grows, pleat looks for memory that has settled meanwhile. A request that cannot grow by new
 * chunks also uses the other class's areas, and areas that private pools left behind. */

/* Set where the request looks, from the request's bytes, pool and is_capturing. `plain` is the
 * first lane of the stream that the request names. PLEAT_OK, or why no lane or area could be
 * had. */
pleat_status pl_fit_prepare(pl_space *space, pl_lane *plain, pl_request *rq);
/* Find resident memory for the request, or grow. *out is a live block, not yet in the map of live
 * blocks. Called with the lock; may drop the lock. The caller holds the request's lane. PLEAT_OK,
 * ENOMEM_HOST, or the verdict of pl_grow_step. */
pleat_status pl_fit_find(pl_space *space, pl_request *rq, pl_block **out);

/* ---- shortage.c: remedies ----
 *
 * Remedies are tried for a request that finds no memory, before the request is refused. */

/* Apply the next remedy that can help. AGAIN: something has changed, so look for memory again.
 * DONE: no remedy is left. *st is `verdict` (ENOMEM_DEVICE, ENOSPACE_VA); EPENDING, if memory may
 * not be waited for; or the error of a wait. Called with the lock; may drop the lock. The caller
 * has nothing reserved. */
pl_step pl_shortage_relieve(pl_space *space, pl_request *rq, pleat_status verdict,
                            pleat_status *st);

/* ---- pends.c: what a wait may bring ----
 *
 * Pending memory that might serve a request after a wait for the GPU.
 *
 * Guarded by the space's lock. Nothing here fails or drops the lock. */

/* Among the other lanes looked at, the lane with the most pending memory that may help, or NULL. */
const pl_lane *pl_pends_most(const pl_space *space, const pl_request *rq);
/* Bytes of shared blocks that may help. */
size_t pl_pends_shared_bytes(const pl_space *space, const pl_request *rq);
/* May pinned memory of private pools help: pending memory in the request's own pool, or pools that
 * drain or open? Memory pending on the lane `usable` would have been found already. Other pools'
 * memory cannot help, nor can the unused rests of their granules. */
bool pl_pends_in_private(const pl_space *space, const pl_request *rq);
/* Might a wait, or an order, spare the request the verdict? If addresses are short, a private
 * request can only use addresses in its own pool. */
bool pl_pends_for(const pl_space *space, const pl_request *rq, pleat_status verdict);

#endif
