/* context.h - the tick of the whole context: one event behind all work of all streams.
 *
 * Memory waits for it if no tick of a stream can cover that memory any more. Recording it breaks
 * captures, so it is recorded only while none is known. pleat knows a capture once a call has named
 * its stream. So after a capture that nobody announced the tick waits for a while without captures:
 * the next one may have begun already. A program that needs certainty announces its captures
 * (pleat_pool_begin). Where the driver has no such event, a caller that may wait synchronises
 * instead.
 *
 * Every function here is called with the space's lock held and may drop it while it talks to the
 * driver; state seen before the call may be stale after it. */
#ifndef PLEAT_SEGMENTS_CONTEXT_H
#define PLEAT_SEGMENTS_CONTEXT_H

#include "segments/pleat/space/space.h"

/* When a tick of the context may be recorded beside captures that no call has named yet. */
typedef enum pl_care {
    PL_CARE_NOW,  /* now, or not at all */
    PL_CARE_LAST, /* the last remedy: wait for a while without captures, then record it anyway, but
                     never beside a known capture */
} pl_care;
/* Record a tick of the context; PL_CARE_LAST waits at most patience_ms. PLEAT_OK; EPENDING (a tick
 * is under way, or another thread is about to record one); ECAPTURE (a capture is known, or may
 * have begun); ENOTSUP; ENOMEM_HOST; EDRIVER. */
pleat_status pl_context_tick_record(pl_space *space, pl_care care, uint32_t patience_ms);
/* Something waits for a tick of the context, but no request needs it yet: try to record one now,
 * unless the last try met an unknown capture; then leave it to callers that have to wait. */
void pl_context_tick_want(pl_space *space);
/* Record one if lanes that are gone, or that no call names any more, have left enough pending bytes
 * to be worth it. */
void pl_context_tick_record_if_due(pl_space *space);
/* Block the host until all work of the device is over, and with it everything freed; at most so
 * long, but for ever where the driver has no event of the context. Other threads go on meanwhile.
 * PLEAT_OK; EPENDING; ECAPTURE; ENOMEM_HOST; EDRIVER. */
pleat_status pl_context_finish(pl_space *space, uint32_t most_ms);
/* Block the host until everything freed before the call is over, at most wait_ms (of
 * pl_deadline_left); 0 only looks. PLEAT_OK; EPENDING; ECAPTURE; ENOMEM_HOST; EDRIVER. */
pleat_status pl_context_tick_wait(pl_space *space, pl_care care, uint32_t wait_ms);

#endif
