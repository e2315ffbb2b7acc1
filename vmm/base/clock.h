/* clock.h - the time since some moment before the program began, which only goes forward.
 *
 * The one home of CLOCK_MONOTONIC (the simulator, a product of its own, has its own time). No
 * cancellation point. A test that needs a time of its own defines clock_gettime: a program's
 * function goes before libc's, here and in all that the program is linked with; how long a wait or
 * a sleep lasts does not change with it. */
#ifndef PLEAT_BASE_CLOCK_H
#define PLEAT_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t pl_clock_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static inline uint64_t pl_clock_ms(void)
{
    return pl_clock_ns() / 1000000;
}

#endif
