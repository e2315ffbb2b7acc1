/* stale.h - unmap the addresses that taken chunks left behind.
 *
 * A taken chunk is mapped at its new place at once. Its old mapping is unmapped later, as the last
 * use of the old addresses may take a while. Stale neighbours are unmapped in one call. */
#ifndef PLEAT_SEGMENTS_STALE_H
#define PLEAT_SEGMENTS_STALE_H

#include "segments/pleat/space/space.h"

/* Unmap every stale block whose last use is over. Called with the lock, drops it around the driver.
 * Returns how many blocks became holes. */
size_t pl_stale_reap(pl_space *space);

#endif
