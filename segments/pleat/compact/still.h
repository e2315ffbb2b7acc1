/* still.h - the moment when live memory may lose its mapping: no work runs on the device.
 *
 * For compactions (compact.c) and for heaps that go to sleep (sleep.h), one at a time. Guarded by
 * the device lock. Every function here may drop the lock. */
#ifndef PLEAT_SEGMENTS_STILL_H
#define PLEAT_SEGMENTS_STILL_H

#include "segments/pleat/space/space.h"

/* Wait until no other thread is between pl_still_begin and pl_still_end. */
void pl_still_begin(pl_space *space);
void pl_still_end(pl_space *space);
/* Wait for all work submitted to the device so far, by whomever, at most 30 times wait_ms. Without
 * an event of the context (driver 555) the wait has no bound. PLEAT_OK; EPENDING (work goes on);
 * ECAPTURE; ENOMEM_HOST; EDRIVER. */
pleat_status pl_still_wait(pl_space *space);
/* After pl_still_wait: settle freed memory, mend memory torn by an earlier compaction, and unmap
 * its scratch addresses. PLEAT_OK; EPENDING (memory freed since still pends); EDRIVER; EPOISONED
 * (what is torn cannot be mended, or the scratch addresses stay mapped). */
pleat_status pl_still_settle(pl_space *space);

/* ---- scratch addresses, and torn memory ----
 *
 * Addresses where a compaction copies from chunk to chunk (pl_scratch_close in back.h gives them
 * back), and memory that a compaction has torn.
 *
 * Every function here is called with the space's lock held, and drops the lock. */

/* Reserve addresses for a chunk of the order, and as many beside it. PLEAT_OK; ENOSPACE_VA;
 * EPOISONED (addresses of an earlier compaction cannot be unmapped); EDRIVER. */
pleat_status pl_scratch_open(pl_space *space, unsigned order);
/* Map what is torn. Drops the lock. PLEAT_OK; EPOISONED. */
pleat_status pl_torn_mend(pl_space *space);

#endif
