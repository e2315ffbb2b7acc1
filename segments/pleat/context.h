/* context.h - the tick of the whole context: one event behind all work of all streams.
 *
 * What can name no stream any more waits for it. It would break a capture, so it is recorded only
 * while none is known of, at a moment when none can just have begun (capturers.h); where drivers
 * have no such event the host synchronises instead.
 *
 * Every function here is called with the space's lock held and may drop it while it talks to the
 * driver; state seen before the call may be stale after it. */
#ifndef PLEAT_SEGMENTS_CONTEXT_H
#define PLEAT_SEGMENTS_CONTEXT_H

#include "segments/pleat/space.h"

/* How well a tick of the context chooses its moment (capturers.h). */
typedef enum pl_care {
    PL_CARE_NOW,  /* now, or not at all */
    PL_CARE_SOON, /* within milliseconds, or not at all */
    PL_CARE_LAST, /* the last remedy: a better moment is waited for, then it is recorded anyway,
                     but never beside a capture that is known */
} pl_care;
/* Record a tick of the context, unless one is under way; waits for other threads at most
 * patience_ms. PLEAT_OK; EPENDING (one is, or some thread is about to); ECAPTURE (one is known, or
 * may have begun); ENOTSUP; ENOMEM_HOST; EDRIVER. */
pleat_status pl_context_tick_record(pl_space *space, pl_care care, uint32_t patience_ms);
/* Something waits for one that no request needs yet: the same, unless the last one met a capture
 * that nobody had told of. Then it is left to whoever has to wait. */
void pl_context_tick_want(pl_space *space);
/* The same if lanes that are gone, or that no call names any more, have left enough to be worth
 * it. */
void pl_context_tick_record_if_due(pl_space *space);
/* Block the host until everything freed before the call is over, at most wait_ms (of
 * pl_deadline_left); 0 only looks. PLEAT_OK; EPENDING; ECAPTURE; ENOMEM_HOST; EDRIVER. */
pleat_status pl_context_tick_wait(pl_space *space, pl_care care, uint32_t wait_ms);

#endif
