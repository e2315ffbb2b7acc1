/* cancel.h - a thread cancelled inside a call of pleat ends after the call.
 *
 * A thread inside a call may hold a lock, a use of the instance or memory unknown to anybody else.
 * So pthread_cancel must not end the thread inside the call. A deferred cancellation takes effect
 * at cancellation points only: waits, sleeps, files, and what the driver, the loader or a user's
 * function may do. Every cancellation point lies between pl_cancel_off and pl_cancel_restore. Pairs
 * may be nested; restoring is no cancellation point. A pair costs 13 ns, an inner pair 4. A hit
 * meets no cancellation point, so it has no pair. A thread with asynchronous cancellation must not
 * call pleat at all (POSIX allows such threads three functions). */
#ifndef PLEAT_BASE_CANCEL_H
#define PLEAT_BASE_CANCEL_H

#include <pthread.h>
#include <time.h>

/* Off until pl_cancel_restore gets the returned state. */
static inline int pl_cancel_off(void)
{
    int before = PTHREAD_CANCEL_ENABLE;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static inline void pl_cancel_restore(int before)
{
    int off;
    (void)pthread_setcancelstate(before, &off);
}

/* Sleeps less than a second, or until a signal comes. */
static inline void pl_sleep_ns(long ns)
{
    struct timespec pause = { .tv_nsec = ns };
    int cancel = pl_cancel_off();
    (void)nanosleep(&pause, NULL);
    pl_cancel_restore(cancel);
}

#endif
