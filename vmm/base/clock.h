/* clock.h - the time since some moment before the program began; it only goes forward.
 *
 * The one home of CLOCK_MONOTONIC (the simulator, a product of its own, has its own time). No
 * cancellation point. A test that needs a time of its own defines clock_gettime: the program's
 * function replaces libc's, here and in everything that the program is linked with. How long a wait
 * or a sleep lasts does not change. */
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
