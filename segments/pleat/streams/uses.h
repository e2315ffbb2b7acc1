/* uses.h - who uses a live block beside its owner: other streams that it was recorded for, and
 * captures that allocated, freed or recorded it.
 *
 * A block that lives long may be recorded in very many captures. Only the newest uses are searched,
 * as a call mostly repeats a recent one; so, rarely, a use by a capture is in the list twice. In a
 * long list the uses by captures come behind the others.
 *
 * Guarded by the device lock; no function drops it. */
#ifndef PLEAT_SEGMENTS_USES_H
#define PLEAT_SEGMENTS_USES_H

#include "segments/pleat/space/space.h"

/* Note that the lane's stream uses b, which is live; `capture`: it does so in the capture's graph;
 * or NULL. is_kept: see pl_block_use. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_uses_add(pl_space *space, pl_block *b, pl_lane *lane, struct pl_capture *capture,
                         bool is_kept);
/* `to`, live and without uses, gets those that `from` has. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_uses_copy(pl_space *space, const pl_block *from, pl_block *to);
/* Drop what the use refers to. The caller takes the use itself off its list. */
void pl_uses_drop(pl_space *space, const pl_block_use *use);
void pl_uses_drop_all(pl_space *space, pl_block *b);

/* The last use; there is one. */
static inline pl_block_use *pl_uses_last(const pl_block *b)
{
    return &b->uses->use[b->uses->n - 1];
}

#endif
