/* uses.h - who uses a live block besides its owner: streams that the block was recorded for, and
 * captures that allocated, freed or recorded the block.
 *
 * A long-lived block may be recorded in very many captures. Only the newest uses are searched, as
 * most calls repeat a recent use. So, rarely, the list has a use by a capture twice. In a long list
 * the uses by captures come last.
 *
 * Guarded by the device lock; no function drops the lock. */
#ifndef PLEAT_SEGMENTS_USES_H
#define PLEAT_SEGMENTS_USES_H

#include "segments/pleat/space/space.h"

/* Note that the lane's stream uses the live block b. `capture`: the capture whose graph uses b, or
 * NULL. is_kept: see pl_block_use. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_uses_add(pl_space *space, pl_block *b, pl_lane *lane, struct pl_capture *capture,
                         bool is_kept);
/* Copy the uses of `from` to the live block `to`, which has none. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_uses_copy(pl_space *space, const pl_block *from, pl_block *to);
/* Drop the references of the use. The caller takes the use itself off its list. */
void pl_uses_drop(pl_space *space, const pl_block_use *use);
void pl_uses_drop_all(pl_space *space, pl_block *b);

/* The last use of a block with uses. */
static inline pl_block_use *pl_uses_last(const pl_block *b)
{
    return &b->uses->use[b->uses->n - 1];
}

#endif
