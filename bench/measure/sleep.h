/* sleep.h - measures the speed of a tag's sleep and wake, beside plain copies of as many bytes.
 *
 * Blocks of a tag are allocated and used. Then the tag sleeps and wakes several times each way, and
 * the least time counts. Before, the driver's plain copies move the instance's memory to
 * page-locked host memory and back. The copies' speed is the limit for a sleep that stores
 * contents. */
#ifndef PLEAT_BENCH_SLEEP_SLEEP_H
#define PLEAT_BENCH_SLEEP_SLEEP_H

#include "bench/base/progress.h"
#include "bench/run/setup.h"
#include "vmm/tools/measure/engine.h"

enum { BENCH_SLEEP_MOST_ROUNDS = 100, BENCH_SLEEP_N_HOWS = 3 };

/* One call; times in ns. The least of all rounds, for each time separately. */
typedef struct bench_sleep_call {
    double ns;        /* by the clock of the host */
    double driver_ns; /* in driver calls; on the simulator by its cost file, on top of `ns` */
    uint64_t n_driver_calls;
} bench_sleep_call;

typedef struct bench_sleep_figures {
    uint64_t bytes;      /* sent and brought back */
    uint64_t kept_bytes; /* with stored contents */
    bench_sleep_call sleep;
    bench_sleep_call wake;
} bench_sleep_figures;

typedef struct bench_sleep_result {
    pl_engine_times engine; /* for the bytes of all blocks; the least of all rounds */
    bench_sleep_figures of[BENCH_SLEEP_N_HOWS]; /* by pleat_sleep */
} bench_sleep_result;

typedef struct bench_sleep_options {
    const bench_setup *setup;
    uint64_t n_blocks;
    uint64_t block_bytes;
    unsigned n_rounds;
    const char *folder; /* of the file */
    bench_progress *progress;
} bench_sleep_options;

/* False and a message when a call failed or a hazard was seen. */
bool bench_sleep(const bench_sleep_options *options, bench_sleep_result *out,
                 bench_failure *failure);

#endif
