/* pair_cell.h - runs one scenario through all rows.
 *
 * A scenario runs in a separate process, several times. PyTorch's allocator cannot be made anew.
 * Only a new process gives equal requests an equal state. Rounds alternate between the rows, so
 * that a slow phase of the machine meets all rows. Of all rounds of all runs, the fastest counts.
 * For calls timed one by one, the fastest of each call counts. Rounds that time single calls, or
 * holds of pleat's locks, come last, since both slow other rounds down. */
#ifndef PLEAT_BENCH_PAIRS_CELL_H
#define PLEAT_BENCH_PAIRS_CELL_H

#include "bench/base/progress.h"
#include "bench/pairs/scenario.h"
#include "bench/pairs/through.h"

enum {
    BENCH_PAIRS_MOST_ROUNDS = 10000,
    BENCH_PAIRS_MOST_RUNS = 100,
    BENCH_PAIRS_MOST_PAIRS = 10000000,
    BENCH_PAIRS_COUNTED_EVENTS = 20000,
};

typedef struct bench_cell_options {
    const bench_scenario *scenario;
    const bench_through_kind *const *kinds;
    unsigned n_kinds;
    unsigned n_rounds; /* in each run */
    unsigned n_runs;
    unsigned n_pairs; /* in each round */
    uint64_t seed;
    const char *conf;
    bench_progress *progress;
} bench_cell_options;

/* Times in nanoseconds. */
typedef struct bench_cell_figures {
    bool is_left_out; /* the scenario needs several streams, and the row has the legacy one */
    double ns;        /* processor time of a unit; of several threads the sum, over all units */
    double wall_ns;   /* of several threads: wall time of the round over all units */
    bool has_calls;   /* the fields below were measured; false for several threads */
    double p50;
    double p99;
    double p99_9;
    double longest_call;
    double longest_hold;    /* negative: the row is not pleat */
    int64_t n_driver_calls; /* in a run's measured rounds; negative: the row is not pleat */
} bench_cell_figures;

typedef struct bench_cell_result {
    char name[BENCH_NAME_BYTES]; /* of the scenario, or of its work */
    bool is_events;              /* units are events, not pairs */
    uint64_t n_units;            /* in each round, of all threads */
    unsigned n_rounds;
    bench_cell_figures rows[BENCH_THROUGH_MOST]; /* by kind */
} bench_cell_result;

typedef enum bench_cell_end {
    BENCH_CELL_DONE,
    BENCH_CELL_FAILED,
    BENCH_CELL_UNKNOWN, /* the work does not exist */
    BENCH_CELL_INTERRUPTED,
} bench_cell_end;

/* Without a cell's figures there is a message. */
bench_cell_end bench_cell(const bench_cell_options *options, bench_cell_result *out,
                          bench_failure *failure);

/* For callgrind, in this process. Each possible row warms up, and then calls BENCH_LOOP_SYMBOL
 * once. Of a work's events, the first BENCH_PAIRS_COUNTED_EVENTS are used. */
bool bench_cell_count(const bench_cell_options *options, bench_failure *failure);

#endif
