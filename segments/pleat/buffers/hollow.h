/* hollow.h - closed buffers without memory: their addresses and metadata go.
 *
 *   open      |## live ##|... hole ...|## live ##|......... hole .........|
 *   closed    |-- free --|... hole ...|~ stale ~ |......... hole .........|   for the next buffer
 *   hollow    |............................ hole .........................|   for it, or to go
 *
 * A closed buffer is noted when its addresses become one hole: then only lists refer to the buffer.
 * For buffers that come and go, hollow ones stay: PL_HOLLOW_KEPT more than buffers are open. A
 * trim, or a lack of addresses, lets all go. No buffer goes while a thread walks over segments and
 * may drop the lock: in a flight, a compaction, a sleep or a wake, or in a walk counted by
 * space.n_walking. No buffer goes while its room retains beds.
 *
 * Guarded by the device lock. */
#ifndef PLEAT_SEGMENTS_HOLLOW_H
#define PLEAT_SEGMENTS_HOLLOW_H

#include "segments/pleat/buffers/buffer.h"

enum { PL_HOLLOW_SOME = 32, PL_HOLLOW_KEPT = 64 };

/* Let at most `most` noted buffers go, until `keep` are left. Drops the lock for the driver. */
void pl_hollow_let_go(pl_space *space, size_t keep, size_t most);
/* After a buffer was closed: keep at most PL_HOLLOW_KEPT noted buffers more than are open. */
static inline void pl_hollow_let_some_go(pl_space *space)
{
    pl_hollow_let_go(space, space->n_buffers + PL_HOLLOW_KEPT, PL_HOLLOW_SOME);
}

#endif
