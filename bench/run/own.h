/* own.h - the time of an allocator's calls, without their time in driver calls.
 *
 * Needs a driver table that times the calls. Such a table reads the clock twice per call. About one
 * of the two reads lies outside the measured driver time, and is subtracted from the own time, too.
 * One thread. */
#ifndef PLEAT_BENCH_OWN_H
#define PLEAT_BENCH_OWN_H

#include "bench/base/clock.h"
#include "vmm/driver.h"

typedef struct bench_own {
    pl_driver *drv;
    uint64_t ticks; /* in the timed calls */
    uint64_t n_timed;
    uint64_t driver_ns; /* readings at the start */
    uint64_t n_driver_calls;
} bench_own;

typedef struct bench_own_time {
    double own_ns; /* noise can make it negative */
    double driver_ns;
    uint64_t n_driver_calls;
} bench_own_time;

/* All driver calls from now on must be made in timed calls. */
void bench_own_start(bench_own *own, pl_driver *drv);
/* The times since bench_own_start. */
bench_own_time bench_own_read(const bench_own *own);

/* Adds the call that began at `begin`, a reading of bench_ticks. */
static inline void bench_own_add(bench_own *own, uint64_t begin)
{
    own->ticks += bench_ticks() - begin;
    own->n_timed++;
}

#endif
