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

#endif
