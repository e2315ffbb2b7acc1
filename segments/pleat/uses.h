/* uses.h - who else uses a live block: other streams that it was recorded for, and captures that
 * allocated, freed or recorded it.
 *
 * A block that lives long may be recorded in very many captures. Of its uses the newest are looked
 * at, as a call mostly names what was named last: so one of a capture may be there twice, rarely.
 * Where there are many, those of captures come behind the others.
 *
 * Guarded by the device lock; no function drops it. */
#ifndef PLEAT_SEGMENTS_USES_H
#define PLEAT_SEGMENTS_USES_H

#include "segments/pleat/space.h"

/* Another lane uses b, which is live; `capture`: in whose graph, or NULL. Needs no more than host
 * memory. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_uses_add(pl_space *space, pl_block *b, pl_lane *lane, struct pl_capture *capture,
                         bool is_kept);
/* One of them does not count any more; the list is the caller's. */
void pl_uses_drop(pl_space *space, const pl_block_use *use);
void pl_uses_drop_all(pl_space *space, pl_block *b);

/* There is one. */
static inline pl_block_use *pl_uses_last(const pl_block *b)
{
    return &b->uses->use[b->uses->n - 1];
}

#endif
