/* grow.h - the rows of the order in which a request looks for memory: see request.c.
 *
 * Each looks at the request of an attempt, and says what came of it. Called with the lock; the
 * caller has nothing reserved. */
#ifndef PLEAT_SEGMENTS_GROW_H
#define PLEAT_SEGMENTS_GROW_H

#include "segments/pleat/grow/request.h"

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
pl_step pl_fit_resident(pl_attempt *t);
pl_step pl_fit_poll(pl_attempt *t);
/* May drop the lock. */
pl_step pl_fit_settle(pl_attempt *t);
bool pl_fit_may_elsewhere(const pl_attempt *t);
pl_step pl_fit_elsewhere(pl_attempt *t);

/* ---- grow.c: idle memory, memory created, memory taken ---- */

/* Could idle and new chunks cover the request's bytes? */
bool pl_grow_can_create(const pl_space *space, const pl_request *rq);
/* Make the indexes in `area` that the request's freed block will need. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_grow_reserve_index(pl_space *space, const pl_request *rq, pl_area *area);
/* One attempt to grow. May drop the lock. NEXT: t->st is ENOMEM_DEVICE or ENOSPACE_VA. */
pl_step pl_grow(pl_attempt *t);

/* ---- shortage.c: what is left to do ----
 *
 * Reached with t->st as pl_grow left it. All but `may` and `answer` may drop the lock. */

bool pl_short_exceeds_device(const pl_attempt *t);
bool pl_short_has_flights(const pl_attempt *t);
pl_step pl_short_wait_for_flights(pl_attempt *t);
bool pl_short_may_poll_all(const pl_attempt *t);
pl_step pl_short_poll_all(pl_attempt *t);
bool pl_short_may_ask_driver(const pl_attempt *t);
pl_step pl_short_ask_driver(pl_attempt *t);

/* Is the request a private pool's, in a capture? */
bool pl_short_may_gather_in_capture(const pl_attempt *t);
/* Outside captures: chunks that may be taken can be too large for any place. */
bool pl_short_may_gather_large(const pl_attempt *t);
/* The same, where there is a reserve. */
bool pl_short_may_gather_for_reserve(const pl_attempt *t);
/* Unmap settled memory, for granules in place of its chunks. */
pl_step pl_short_gather(pl_attempt *t);

bool pl_short_must_use_reserve(const pl_attempt *t);
bool pl_short_may_use_reserve(const pl_attempt *t);
pl_step pl_short_use_reserve(pl_attempt *t);

/* Sets t->pends. */
pl_step pl_short_judge(pl_attempt *t);
bool pl_short_may_order(const pl_attempt *t);
pl_step pl_short_order_next(pl_attempt *t);
pl_step pl_short_wait_next(pl_attempt *t);
bool pl_short_may_wait_for_all(const pl_attempt *t);
pl_step pl_short_wait_for_all(pl_attempt *t);
/* The answer is EPENDING, or the error of a wait. */
pl_step pl_short_answer_pending(pl_attempt *t);

bool pl_short_may_clear_stale(const pl_attempt *t);
pl_step pl_short_clear_stale(pl_attempt *t);
/* The answer is what pl_grow said; or EPENDING, if a capture keeps memory from the request, or only
 * a wait for which no time is left would make room. */
pl_step pl_short_answer(pl_attempt *t);

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
