/* growth.h - the call sites whose live blocks grow with each step of a recording.
 *
 * A site is a line of code: the innermost frame of a stack that is not PyTorch's own. A step begins
 * where the optimizer allocates, as the stacks tell. Where they do not, it begins in a valley of
 * live memory, but only if the valleys rise (steps.h): the layers of one step have valleys, too. */
#ifndef PLEAT_BENCH_GROWTH_H
#define PLEAT_BENCH_GROWTH_H

#include "bench/import/snapshot.h"
#include "bench/import/steps.h"

/* Write which sites grow, those with the most bytes first: "by 3 blocks, 12.0 MiB a step, from" a
 * line of code. Empty if none does, and without host memory. A site grows if it had more live
 * blocks at the start of each of the last steps, three or more, and three quarters of all. */
void bench_growth_look(const bench_snapshot *snapshot, const bench_steps *steps,
                       char out[BENCH_GROWTH_BYTES]);

#endif
