/* pends.h - what pends that might serve a request, if the GPU were waited for.
 *
 * Guarded by the space's lock; nothing here fails or drops it. */
#ifndef PLEAT_SEGMENTS_PENDS_H
#define PLEAT_SEGMENTS_PENDS_H

#include "segments/pleat/grow/request.h"

/* Of the other lanes that are looked at, the one with the most pending memory that may help;
 * NULL = none. */
const pl_lane *pl_pends_most(const pl_space *space, const pl_request *rq);
/* Bytes of shared blocks that may help. */
size_t pl_pends_shared_bytes(const pl_space *space, const pl_request *rq);
/* May pinned memory of private pools help: what pends in the request's own pool, or pools that
 * drain or open? What pends on the lane `usable` would have been found already. Other pools' memory
 * cannot help, nor can the unused rests of their granules. */
bool pl_pends_in_private(const pl_space *space, const pl_request *rq);
/* Is there anything that a wait, or an order, might let the request have, so that it escapes the
 * verdict? If addresses are short, a private request finds them in its own pool only. */
bool pl_pends_for(const pl_space *space, const pl_request *rq, pleat_status verdict);

#endif
