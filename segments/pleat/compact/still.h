/* still.h - the moment at which live memory may lose its mapping: no work runs on the device.
 *
 * For compactions (compact.c) and for rooms that go to sleep (sleep.h), one at a time. Guarded by
 * the device lock, which every function here may drop. */
#ifndef PLEAT_SEGMENTS_STILL_H
#define PLEAT_SEGMENTS_STILL_H

#include "segments/pleat/space/space.h"

/* Wait until nobody else is between these two. */
void pl_still_begin(pl_space *space);
void pl_still_end(pl_space *space);
/* Wait for all work that was submitted to the device so far, by whomever, and settle what was
 * freed. What an earlier compaction has torn is mended. PLEAT_OK; ECAPTURE; EPENDING; EDRIVER;
 * EPOISONED (it cannot be mended). */
pleat_status pl_still_wait(pl_space *space);

#endif
