/* bench_sim.h - the simulator and the works of the bench layer's suites. */
#ifndef PLEAT_TESTS_BENCH_SIM_H
#define PLEAT_TESTS_BENCH_SIM_H

#include "bench/run/setup.h"

/* The simulator, as with --driver sim. The test fails if it cannot be had. */
void bench_sim_setup(bench_setup *out);

/* Write a trace of `n` blocks of `bytes` and more, side by side. Every third block is freed. */
void bench_sim_write_trace(const char *path, unsigned n, unsigned bytes);

#endif
