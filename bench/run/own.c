/* own.c - the time of an allocator's calls, without their time in driver calls. */
#include "bench/run/own.h"

static uint64_t n_driver_calls(const pl_driver *drv)
{
    uint64_t sum = 0;
    for (int i = 0; i < PL_N_ENTRIES; i++) {
        sum += pl_driver_n_calls(drv, (pl_entry)i);
    }
    return sum;
}

void bench_own_start(bench_own *own, pl_driver *drv)
{
    *own = (bench_own){ .drv = drv,
                        .driver_ns = pl_driver_call_ns(drv),
                        .n_driver_calls = n_driver_calls(drv) };
}

bench_own_time bench_own_read(const bench_own *own)
{
    const bench_clock *clock = bench_clock_calibrated();
    uint64_t n_calls = n_driver_calls(own->drv) - own->n_driver_calls;
    double driver_ns = (double)(pl_driver_call_ns(own->drv) - own->driver_ns);
    double ticks = (double)own->ticks - (double)own->n_timed * clock->pair_ticks;
    double own_ns = ticks * clock->ns_per_tick - driver_ns - (double)n_calls * clock->read_ns;
    return (bench_own_time){ .own_ns = own_ns, .driver_ns = driver_ns, .n_driver_calls = n_calls };
}
