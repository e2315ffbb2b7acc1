/* grow.h - how a request that no resident run can hold gets memory, or a refusal that is true. */
#ifndef PLEAT_SEGMENTS_GROW_H
#define PLEAT_SEGMENTS_GROW_H

#include "segments/pleat/grow/request.h"

/* Could the request's bytes be covered by idle chunks and new ones? */
bool pl_grow_can_create(const pl_space *space, const pl_request *rq);
/* Have the indexes in `area` that the request's block needs when it is freed. PLEAT_OK or
 * ENOMEM_HOST. */
pleat_status pl_grow_reserve_index(pl_space *space, const pl_request *rq, pl_area *area);
/* One attempt. Called with the lock; may drop it. The caller has nothing reserved or in flight. */
pl_step pl_grow_step(pl_space *space, pl_request *rq, pl_block **out, pleat_status *st);

#endif
