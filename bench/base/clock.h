/* clock.h - the time of single calls of tens of nanoseconds.
 *
 * A tick is a count of the processor's time-stamp counter on x86-64, which has a constant rate on
 * every machine of the last decade. Elsewhere a tick is a nanosecond of CLOCK_MONOTONIC.
 * bench_clock_calibrated measures the rate and the cost of reading the clock twice. Every timed
 * call is shortened by that cost. */
#ifndef PLEAT_BENCH_CLOCK_H
#define PLEAT_BENCH_CLOCK_H

#include <stdint.h>

#include "vmm/base/clock.h"

static inline uint64_t bench_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return pl_clock_ns();
#endif
}

typedef struct bench_clock {
    double ns_per_tick;
    double pair_ticks; /* between two reads with nothing in between */
    double read_ns;    /* the cost with CLOCK_MONOTONIC, which times driver calls */
} bench_clock;

/* Takes about 20 ms, only the first time. Not for several threads at once. */
const bench_clock *bench_clock_calibrated(void);

#endif
