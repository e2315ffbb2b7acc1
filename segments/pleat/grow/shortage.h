/* shortage.h - remedies tried for a request that finds no memory, before the request is refused. */
#ifndef PLEAT_SEGMENTS_SHORTAGE_H
#define PLEAT_SEGMENTS_SHORTAGE_H

#include "segments/pleat/grow/request.h"

/* Apply the next remedy that can help. AGAIN: something has changed, so look for memory again.
 * DONE: no remedy is left. *st is `verdict` (ENOMEM_DEVICE, ENOSPACE_VA); EPENDING, if memory may
 * not be waited for; or the error of a wait. Called with the lock; may drop the lock. The caller
 * has nothing reserved. */
pl_step pl_shortage_relieve(pl_space *space, pl_request *rq, pleat_status verdict,
                            pleat_status *st);

#endif
