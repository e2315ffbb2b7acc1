/* deadline.h - until when the calling thread's call of the public interface may wait.
 *
 * wait_ms bounds a call as a whole, with its attempts, its waits, and the callbacks between. So a
 * call has one deadline, set by its first wait. The deadline belongs to the thread, since a thread
 * is in one call at a time. As a parameter, the deadline would be handed down by requests that find
 * memory at once and never look at the clock.
 *
 *   an allocator   pl_deadline_begin where it first finds that an attempt may have to wait, then
 *                  pl_deadline_left before each wait
 *   api            pl_deadline_hold after a first attempt that failed, so that those that follow
 *                  belong to the same call, and pl_deadline_let_go; around a callback, whose calls
 *                  are calls of their own, pl_deadline_lay_aside and pl_deadline_take_up
 *
 * No lock, no driver call. The deadline does not bound driver calls that block by themselves, nor
 * waits of a few milliseconds for threads that are inside a driver call. */
#ifndef PLEAT_BASE_DEADLINE_H
#define PLEAT_BASE_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct pl_deadline {
    uint64_t until_ms; /* owner: by pl_clock_ms; 0 = nothing has been waited for yet */
    bool is_held;      /* owner: a new attempt belongs to a call already begun */
} pl_deadline;

/* An attempt begins. Forget what the thread's last call has left, unless the call still goes on. */
void pl_deadline_begin(void);
/* Milliseconds left of `wait_ms`, from the first such question of the call on. 0 and UINT32_MAX,
 * never and for ever, are answered with themselves. */
uint32_t pl_deadline_left(uint32_t wait_ms);

/* The call goes on after an attempt. Its time runs from now on, unless it runs already. */
void pl_deadline_hold(uint32_t wait_ms);
void pl_deadline_let_go(void);
void pl_deadline_extend(uint64_t ms); /* so much of the time is not the call's */

/* Calls from now on have their own deadline, until this one is taken up again. */
pl_deadline pl_deadline_lay_aside(void);
void pl_deadline_take_up(pl_deadline deadline);

#endif
