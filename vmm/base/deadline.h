/* deadline.h - until when the calling thread's call of the public interface may wait.
 *
 * wait_ms bounds a call as a whole: its attempts, what they wait for, and the callbacks between
 * them. So a call has one deadline, made by its first wait. It is the thread's, since a thread is
 * in one call at a time, and no parameter: a request that finds its memory at once neither hands it
 * down nor looks at the clock.
 *
 *   an allocator   pl_deadline_begin where it first finds that an attempt may have to wait, then
 *                  pl_deadline_left before each wait
 *   api            pl_deadline_hold after a first attempt that failed, so that those that follow
 *                  belong to the same call, and pl_deadline_let_go; around a callback, whose calls
 *                  are calls of their own, pl_deadline_lay_aside and pl_deadline_take_up
 *
 * No lock, no driver call. Not waited for in this sense: calls of the driver that block by
 * themselves, and, a few milliseconds each, other threads that are in the middle of some. */
#ifndef PLEAT_BASE_DEADLINE_H
#define PLEAT_BASE_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct pl_deadline {
    uint64_t until_ms; /* owner: by pl_clock_ms; 0 = nothing has been waited for yet */
    bool is_held;      /* owner: what begins now belongs to a call that has begun before */
} pl_deadline;

/* An attempt begins: what the thread's last call has left is forgotten, unless it still goes on. */
void pl_deadline_begin(void);
/* Milliseconds left of `wait_ms`, from the first such question of the call on. 0 and UINT32_MAX,
 * never and for ever, are answered with themselves. */
uint32_t pl_deadline_left(uint32_t wait_ms);

/* The call goes on after an attempt; its time runs from now on, if it did not yet. */
void pl_deadline_hold(uint32_t wait_ms);
void pl_deadline_let_go(void);
void pl_deadline_extend(uint64_t ms); /* so much of the time is not the call's */

/* Calls that are made from now on, until the deadline is taken up again, have their own. */
pl_deadline pl_deadline_lay_aside(void);
void pl_deadline_take_up(pl_deadline deadline);

#endif
