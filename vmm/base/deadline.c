/* deadline.c - the calling thread's deadline. See deadline.h. */
#include "vmm/base/deadline.h"

#include "vmm/base/clock.h"

static _Thread_local pl_deadline own;

void pl_deadline_begin(void)
{
    if (!own.is_held) {
        own.until_ms = 0;
    }
}

uint32_t pl_deadline_left(uint32_t wait_ms)
{
    if (wait_ms == 0 || wait_ms == UINT32_MAX) {
        return wait_ms;
    }
    uint64_t now = pl_clock_ms();
    if (own.until_ms == 0) {
        own.until_ms = now + wait_ms;
    }
    return own.until_ms > now ? (uint32_t)(own.until_ms - now) : 0;
}

void pl_deadline_hold(uint32_t wait_ms)
{
    (void)pl_deadline_left(wait_ms);
    own.is_held = true;
}

void pl_deadline_let_go(void)
{
    own = (pl_deadline){ .is_held = false };
}

void pl_deadline_extend(uint64_t ms)
{
    if (own.until_ms != 0) {
        own.until_ms += ms;
    }
}

pl_deadline pl_deadline_lay_aside(void)
{
    pl_deadline deadline = own;
    own = (pl_deadline){ .is_held = false };
    return deadline;
}

void pl_deadline_take_up(pl_deadline deadline)
{
    own = deadline;
}
