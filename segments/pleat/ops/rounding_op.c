/* rounding_op.c - how far requests are rounded up from now on.
 *
 * A front gives blocks by the requested size, rounded to the quantum. The quick way knows no
 * further size. So while requests are made larger, every request takes the general way, without
 * fronts. Live blocks keep their size. */

#include <string.h>

#include "segments/base/rounding.h"
#include "segments/pleat/front/front.h"
#include "segments/pleat/space/ops.h"

/* First set the rounding for fronts bound from now on, then unbind: to unbind may drop the lock. */
void pl_pleat_set_rounding(pl_allocator *a, const unsigned divisions[PL_N_DIVISIONS])
{
    pl_space *space = (pl_space *)a;

    pl_lock_acquire(&space->lock);
    memcpy(space->roundup_divisions, divisions, sizeof space->roundup_divisions);
    space->is_rounding = pl_rounding_is_on(divisions);
    if (space->is_rounding) {
        pl_fronts_unbind(space, 0);
    }
    pl_lock_release(&space->lock);
}
