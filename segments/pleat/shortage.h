/* shortage.h - what is tried for a request that no place can be had for, before it is refused. */
#ifndef PLEAT_SEGMENTS_SHORTAGE_H
#define PLEAT_SEGMENTS_SHORTAGE_H

#include "segments/pleat/request.h"

/* The next remedy that can help. AGAIN: something has changed that may. DONE: nothing is left, and
 * *st is `verdict` (ENOMEM_DEVICE, ENOSPACE_VA), or EPENDING where the memory is there but may not
 * be waited for, or what broke a wait. Called with the lock, which it may drop; the caller holds
 * nothing. */
pl_step pl_shortage_relieve(pl_space *space, pl_request *rq, pleat_status verdict,
                            pleat_status *st);

#endif
