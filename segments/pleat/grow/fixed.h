/* fixed.h - requests whose block goes to one address: pages of a buffer. */
#ifndef PLEAT_SEGMENTS_FIXED_H
#define PLEAT_SEGMENTS_FIXED_H

#include "segments/pleat/grow/place.h"
#include "segments/pleat/grow/request.h"

/* What the request needs where it goes. PLEAT_OK; EPENDING (something there is in use, or may be;
 * *out says what would be needed when that is over); EPOISONED. */
pleat_status pl_fixed_place(const pl_space *space, const pl_request *rq, pl_place *out);
/* Make a live block there, not in the map of live blocks, if all of it is resident and free for the
 * request. Needs two spare blocks. NULL: it is not. */
pl_block *pl_fixed_fit(pl_space *space, const pl_request *rq);

#endif
