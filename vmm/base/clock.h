/* clock.h - the time since a moment before the program began. The time only goes forward.
 *
 * The one home of CLOCK_MONOTONIC; the simulator, a separate product, has its own time. No
 * cancellation point. A test with its own time defines clock_gettime. The program's function
 * replaces libc's, also in every library of the program. How long a wait or a sleep lasts does not
 * change. */
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
