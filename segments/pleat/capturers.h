/* capturers.h - which threads make captures, so that a tick of the context meets none.
 *
 * A capture is known once a call has named its stream; a tick of the context that is recorded
 * between its begin and that call breaks it. It begins in a thread, outside of pleat's calls, and
 * who made captures will make more. So the ticks choose their moment: while each thread that was
 * seen capturing lately is inside a call that found its stream at rest, or was not seen in one for
 * long, no capture can just have begun. Whoever needs a tick waits for that moment, for some
 * milliseconds at a time, in which those threads do not leave their calls; the tick is recorded
 * before they do.
 *
 * That is care, no proof: the first capture of a thread cannot be foreseen, a thread may name other
 * streams while it captures, and one that sleeps for long between begin and first call is taken for
 * idle. Who needs certainty tells (pleat_pool_begin).
 *
 * Every function here is called with the space's lock held. */
#ifndef PLEAT_SEGMENTS_CAPTURERS_H
#define PLEAT_SEGMENTS_CAPTURERS_H

#include "segments/pleat/space.h"

/* The calling thread named a stream that is being captured. */
void pl_capturers_note(pl_space *space);

bool pl_capturers_come_in(pl_space *space);
void pl_capturers_go_out(pl_space *space);

/* The calling thread is inside a call, and cannot begin a capture until it leaves. True: it has to
 * say so (leave). What others pay is one comparison. */
static inline bool pl_capturers_enter(pl_space *space, bool is_capturing)
{
    return __builtin_expect(space->n_capturers > 0, false) && !is_capturing &&
           pl_capturers_come_in(space);
}
/* May drop the lock: while a tick is being recorded, or is about to, such a thread waits. */
static inline void pl_capturers_leave(pl_space *space, bool has_entered)
{
    if (__builtin_expect(has_entered, false)) {
        pl_capturers_go_out(space);
    }
}

/* Wait for a moment in which no capture can just have begun, at most patience_ms; 0 only looks.
 * True: it is now, and lasts if the lock is not dropped before context.is_recording is set. */
bool pl_capturers_gather(pl_space *space, uint32_t patience_ms);
/* Let others have the lock for a while, on the way to something that takes milliseconds. */
void pl_capturers_pause(pl_space *space);

void pl_capturers_forget_all(pl_space *space);

#endif
