/* optimizer_steps.h - a recording's steps as its user counts them: the steps of the optimizer. */
#ifndef PLEAT_BENCH_OPTIMIZER_STEPS_H
#define PLEAT_BENCH_OPTIMIZER_STEPS_H

#include "bench/import/snapshot.h"

/* Goes over the entries in their order, and knows where a step begins. */
typedef struct bench_stepper {
    const bench_snapshot *snapshot;
    uint8_t *known; /* by stack: each is looked at once */
    bool was_inside;
} bench_stepper;

/* False: no host memory. Call bench_stepper_fini in either case. */
bool bench_stepper_init(bench_stepper *stepper, const bench_snapshot *snapshot);
void bench_stepper_fini(bench_stepper *stepper);
bool bench_stepper_begins(bench_stepper *stepper, const bench_snapshot_entry *entry);

/* Count the steps of the optimizer by the stacks of allocations. Fewer than two count as 0: an
 * optimizer may allocate in its first step only. 0 also without stacks. */
uint64_t bench_optimizer_steps(const bench_snapshot *snapshot);

#endif
