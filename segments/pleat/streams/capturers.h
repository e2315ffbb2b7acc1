/* capturers.h - which threads make captures, so that a tick of the context meets none.
 *
 * pleat knows a capture once a call has named its stream; a tick of the context that is recorded
 * between the capture's begin and that call breaks it. A capture begins in a thread, outside of
 * pleat's calls, and a thread that made captures will make more. So a tick chooses its moment: when
 * each thread that was seen capturing lately either is inside a call that found its stream at rest,
 * or has been in no call for long, no capture can just have begun. A thread that needs a tick waits
 * for such a moment, for some milliseconds at a time, in which the capturing threads do not leave
 * their calls; the tick is recorded before they do.
 *
 * This is care, not proof: the first capture of a thread cannot be foreseen, a thread may name
 * other streams while it captures, and a thread that sleeps for long between begin and first call
 * is taken for idle. A program that needs certainty announces its captures (pleat_pool_begin).
 *
 * Every function here is called with the space's lock held. */
#ifndef PLEAT_SEGMENTS_CAPTURERS_H
#define PLEAT_SEGMENTS_CAPTURERS_H

#include "segments/pleat/space/space.h"

/* The calling thread named a stream that is being captured. */
void pl_capturers_note(pl_space *space);

bool pl_capturers_come_in(pl_space *space);
void pl_capturers_go_out(pl_space *space);

/* Note that the calling thread is inside a call and begins no capture until it leaves. True: it has
 * to call pl_capturers_leave. Where no thread makes captures this is one comparison. */
static inline bool pl_capturers_enter(pl_space *space, bool is_capturing)
{
    return __builtin_expect(space->captures.n_capturers > 0, false) && !is_capturing &&
           pl_capturers_come_in(space);
}
/* May drop the lock: such a thread waits while a tick is being recorded, or is about to be. */
static inline void pl_capturers_leave(pl_space *space, bool has_entered)
{
    if (__builtin_expect(has_entered, false)) {
        pl_capturers_go_out(space);
    }
}

/* Wait for a moment in which no capture can just have begun, at most patience_ms; 0 only looks.
 * True: the moment is now; it lasts if the caller begins to record before it drops the
 * lock. */
bool pl_capturers_gather(pl_space *space, uint32_t patience_ms);
/* Sleep without the lock for a moment, between two looks at what takes others milliseconds. */
void pl_capturers_pause(pl_space *space);

void pl_capturers_forget_all(pl_space *space);

#endif
