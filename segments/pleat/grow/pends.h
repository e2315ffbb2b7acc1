/* pends.h - pending memory that might serve a request after a wait for the GPU.
 *
 * Guarded by the space's lock. Nothing here fails or drops the lock. */
#ifndef PLEAT_SEGMENTS_PENDS_H
#define PLEAT_SEGMENTS_PENDS_H

#include "segments/pleat/grow/request.h"

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
