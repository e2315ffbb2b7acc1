/* demo.h - the measurements of `pleat demo`: the bundled traces under pleat and torch-native. */
#ifndef PLEAT_BENCH_DEMO_H
#define PLEAT_BENCH_DEMO_H

#include "bench/run/fit.h"

enum { BENCH_DEMO_MOST_TRACES = 64, BENCH_DEMO_N_ALLOCATORS = 2 };

/* The device of the second replay, as a multiple of the peak live bytes. */
#define BENCH_DEMO_TIGHT 1.02

extern const char *const bench_demo_allocators[BENCH_DEMO_N_ALLOCATORS];

/* A trace under an allocator. */
typedef struct bench_demo_job {
    char path[1024];
    const char *allocator;
    double seconds;
    bool is_done;
    bool is_failed;
    bench_failure failure;
    bench_record unlimited;
    bench_record tight;
    bench_record fit;
} bench_demo_job;

typedef struct bench_demo {
    bench_setup setup;
    unsigned n_jobs;
    unsigned n_done;
    bench_demo_job jobs[BENCH_DEMO_MOST_TRACES * BENCH_DEMO_N_ALLOCATORS];
} bench_demo;

/* Run everything in child processes and show the progress on stderr. Two children at once if the
 * GPU is simulated and there are two processors; one child on a real GPU. The result is shared with
 * the children. Free it with bench_demo_free. NULL and a message when the demo could not begin. */
bench_demo *bench_demo_run(const bench_target *target, bench_failure *failure);
void bench_demo_free(bench_demo *demo);

#endif
