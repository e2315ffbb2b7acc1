/* tail.h - measures single calls, above all rare long ones, and how long they block other threads.
 *
 * A script is run several times with fresh instances. The least time of each call counts. So other
 * programs have no effect. Time in driver calls is subtracted and shown separately. As many further
 * runs time the holds of the device's lock, since timing holds slows the calls down. */
#ifndef PLEAT_BENCH_TAIL_TAIL_H
#define PLEAT_BENCH_TAIL_TAIL_H

#include "bench/base/progress.h"
#include "bench/measure/script.h"
#include "bench/run/setup.h"

enum { BENCH_TAIL_MOST_ROUNDS = 100 };

/* For all calls of one kind; times in nanoseconds. */
typedef struct bench_tail_figures {
    uint64_t n_calls; /* 0 = none; the rest is then unset */
    uint64_t n_failed;
    double p50;
    double p99;
    double p99_9;
    double most;
    uint64_t worst_step;         /* index in the script of the slowest call */
    uint64_t worst_driver_calls; /* made by the longest call */
    double most_driver;          /* in one call, inside the driver */
    double longest_hold;         /* of the device's lock */
} bench_tail_figures;

typedef struct bench_tail_result {
    bool is_left_out; /* the allocator has no private pools, and the script needs them */
    bench_tail_figures of[BENCH_N_MEASURED]; /* by bench_step_kind */
} bench_tail_result;

typedef struct bench_tail_options {
    const bench_setup *setup;
    const char *allocator;
    const bench_script *script;
    unsigned n_rounds;
    bench_progress *progress;
} bench_tail_options;

/* "alloc", "free", ... */
const char *bench_tail_kind(unsigned kind);

/* False and a message when a call failed other than an allocation. */
bool bench_tail(const bench_tail_options *options, bench_tail_result *out, bench_failure *failure);

#endif
