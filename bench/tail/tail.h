/* tail.h - how long single calls take, the rare long ones above all, and how long they keep others
 * from the device.
 *
 * A script is run several times, each time with a fresh instance, and the least of a call's times
 * counts: what other programs do falls out, what the call itself does remains. The time of the
 * driver's calls is taken out, and told apart. As many further runs time how long the lock of the
 * device was held, which would cost time in the others. */
#ifndef PLEAT_BENCH_TAIL_TAIL_H
#define PLEAT_BENCH_TAIL_TAIL_H

#include "bench/base/progress.h"
#include "bench/run/setup.h"
#include "bench/tail/script.h"

enum { BENCH_TAIL_MOST_ROUNDS = 100 };

/* Of all calls of one kind; times in nanoseconds. */
typedef struct bench_tail_figures {
    uint64_t n_calls; /* 0 = none, and nothing below */
    uint64_t n_failed;
    double p50;
    double p99;
    double p99_9;
    double most;
    uint64_t worst_step;         /* of the script, that took the most */
    uint64_t worst_driver_calls; /* which it made */
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

/* False and a message when a call failed that may not; allocations may. */
bool bench_tail(const bench_tail_options *options, bench_tail_result *out, bench_failure *failure);

#endif
