/* context.h - the tick of the whole context: one event behind all work of all streams.
 *
 * Memory waits for a tick of the context if no tick of a stream can cover that memory any more. The
 * tick would break captures. So the tick is recorded only while no capture is known, and at a
 * moment when none can just have begun (capturers.h). A program that needs certainty announces its
 * captures (pleat_pool_begin). Where the driver has no event of the context, a caller with time to
 * wait synchronises instead.
 *
 * Every function of this file is called with the space's lock held, and may drop the lock for
 * driver calls. State seen before the call may be stale after the call. */
#ifndef PLEAT_SEGMENTS_CONTEXT_H
#define PLEAT_SEGMENTS_CONTEXT_H

#include "segments/pleat/space/space.h"

/* How well a tick of the context chooses its moment (capturers.h). */
typedef enum pl_care {
    PL_CARE_NOW,  /* now, or not at all */
    PL_CARE_SOON, /* within milliseconds, or not at all */
    PL_CARE_LAST, /* the last remedy: wait for a good moment, then record the tick anyway, but never
                     beside a known capture */
} pl_care;

/* So many bytes can only be covered by a tick of the context any more. A later call records the
 * tick once that is worth it (pl_context_tick_record_if_due). */
static inline void pl_context_leave(pl_space *space, size_t bytes)
{
    space->streams.context.is_wanted = true;
    space->streams.context.gone_bytes += bytes;
}

/* Record a tick of the context; waits at most patience_ms for a good moment. PLEAT_OK; EPENDING (a
 * tick is under way, or a thread is about to record one); ECAPTURE (a capture is known, or may have
 * begun); ENOTSUP; ENOMEM_HOST; EDRIVER. */
pleat_status pl_context_tick_record(pl_space *space, pl_care care, uint32_t patience_ms);
/* pl_context_leave, and try to record a tick now. If the last try met an unknown capture, leave the
 * tick to callers with time to wait. */
void pl_context_tick_want(pl_space *space, size_t bytes);
/* Record a tick if gone and silent lanes have left enough pending bytes to be worth a tick. */
void pl_context_tick_record_if_due(pl_space *space);
/* Block the host at most most_ms, until all work of the device and all frees are over. Without
 * events of the context the wait has no limit. Other threads go on meanwhile. PLEAT_OK; EPENDING;
 * ECAPTURE; ENOMEM_HOST; EDRIVER. */
pleat_status pl_context_finish(pl_space *space, uint32_t most_ms);
/* Block the host until everything freed before the call is over, at most wait_ms (of
 * pl_deadline_left), and at most most_ms for a tick. With wait_ms 0 the call only looks. PLEAT_OK;
 * EPENDING; ECAPTURE; ENOMEM_HOST; EDRIVER. */
pleat_status pl_context_tick_wait(pl_space *space, pl_care care, uint32_t wait_ms,
                                  uint32_t most_ms);

#endif
