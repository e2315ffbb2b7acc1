/* stale.h - unmapping what taken chunks left behind.
 *
 * A taken chunk is mapped at its new place at once; its old mapping is unmapped later, when the
 * last use of the old address has passed: alone, since the fence of a lane that is still pending
 * may take a while, and in as few calls as neighbours allow. */
#ifndef PLEAT_SEGMENTS_STALE_H
#define PLEAT_SEGMENTS_STALE_H

#include "segments/pleat/space.h"

/* Unmap every stale block whose last use is over. Called with the lock, drops it around the driver.
 * Returns how many blocks became holes. */
size_t pl_stale_reap(pl_space *space);

#endif
