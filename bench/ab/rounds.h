/* rounds.h - measures the cells of a plan, round by round, each cell in a process of its own. */
#ifndef PLEAT_BENCH_ROUNDS_H
#define PLEAT_BENCH_ROUNDS_H

#include "bench/ab/meter.h"
#include "bench/ab/study.h"
#include "bench/run/workers.h"

typedef struct bench_rounds {
    bench_ab_plan *plan;
    bench_ab_slot *slots; /* shared; one for each job at a time */
    unsigned n_slots;
    bench_meter *meter; /* NULL = progress is not shown */
    bench_study *study; /* gets each cell as it ends; NULL = nobody */
    unsigned first;     /* cell of the round, in the order of the plan */
    bool is_written;    /* so far */
    bench_failure failure;
} bench_rounds;

/* Run all cells of the plan. Its message is in `failure` when a process could not be started, or
 * when `is_written` has become false. */
bench_workers_end bench_rounds_run(bench_rounds *rounds);

/* It was measured, or was needless, and no hazard was seen. */
bool bench_rounds_is_good(const bench_ab_cell *cell);

#endif
