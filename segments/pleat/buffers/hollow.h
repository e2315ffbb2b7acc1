/* hollow.h - closed buffers without memory: their addresses and metadata go.
 *
 *   open      |## live ##|... hole ...|## live ##|......... hole .........|
 *   closed    |-- free --|... hole ...|~ stale ~ |......... hole .........|   for the next buffer
 *   hollow    |............................ hole .........................|   for it, or to go
 *
 * A closed buffer is noted when its addresses become one hole: then only lists refer to it. As many
 * as are open stay, and some more, for buffers that come and go; a trim, or a lack of addresses,
 * lets all go. None goes while a thread walks over segments and may drop the lock: in a flight, a
 * compaction, a sleep or a wake, or in a walk that space.n_walking counts. Nor while its room
 * retains what a sleep has kept.
 *
 * Guarded by the device lock. */
#ifndef PLEAT_SEGMENTS_HOLLOW_H
#define PLEAT_SEGMENTS_HOLLOW_H

#include "segments/pleat/buffers/buffer.h"

enum { PL_HOLLOW_SOME = 32, PL_HOLLOW_KEPT = 64 };

/* Let at most `most` of those that are noted go, until `keep` are left. Drops the lock for the
 * driver. */
void pl_hollow_let_go(pl_space *space, size_t keep, size_t most);
/* After a buffer was closed: so many that they stay no more than open ones. */
static inline void pl_hollow_let_some_go(pl_space *space)
{
    pl_hollow_let_go(space, space->n_buffers + PL_HOLLOW_KEPT, PL_HOLLOW_SOME);
}

#endif
