/* fixed.h - requests with a fixed address: pages of a buffer. */
#ifndef PLEAT_SEGMENTS_FIXED_H
#define PLEAT_SEGMENTS_FIXED_H

#include "segments/pleat/grow/place.h"
#include "segments/pleat/grow/request.h"

/* Find out what the request needs in its place. PLEAT_OK; EPENDING (part of the place is, or may
 * be, in use; *out says what the request will need afterwards); EPOISONED. */
pleat_status pl_fixed_place(const pl_space *space, const pl_request *rq, pl_place *out);
/* If all of the place is resident and free for the request, make a live block of the place, outside
 * the map of live blocks; else NULL. Needs two spare blocks. */
pl_block *pl_fixed_fit(pl_space *space, const pl_request *rq);

#endif
