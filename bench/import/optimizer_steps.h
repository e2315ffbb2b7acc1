/* optimizer_steps.h - a recording's steps as its user counts them: the steps of the optimizer. */
#ifndef PLEAT_BENCH_OPTIMIZER_STEPS_H
#define PLEAT_BENCH_OPTIMIZER_STEPS_H

#include "bench/import/snapshot.h"

/* Count the steps of the optimizer by the stacks of allocations. Fewer than two count as 0: an
 * optimizer may allocate in its first step only. 0 also without stacks. */
uint64_t bench_optimizer_steps(const bench_snapshot *snapshot);

#endif
