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
/* Wait for all work that was submitted to the device so far, by whomever, at most 30 times wait_ms.
 * Without an event of the context (driver 555) it waits for ever. PLEAT_OK; EPENDING (work goes
 * on); ECAPTURE; ENOMEM_HOST; EDRIVER. */
pleat_status pl_still_wait(pl_space *space);
/* After it: settle what was freed, and mend what an earlier compaction has torn. PLEAT_OK; EPENDING
 * (of what was freed since); EDRIVER; EPOISONED (it cannot be mended). */
pleat_status pl_still_settle(pl_space *space);

#endif
