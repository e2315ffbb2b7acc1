/* crowd.h - one round of several threads at once. */
#ifndef PLEAT_BENCH_PAIRS_CROWD_H
#define PLEAT_BENCH_PAIRS_CROWD_H

#include "bench/pairs/loops.h"

/* Run each thread's part of the round. All threads start at the same moment. `cpu_ns` is the
 * processor time of all threads together. `wall_ns` is the time from the common start to the end of
 * the last thread. False and a message when a thread could not be started. `is_done` is false when
 * a request failed. */
bool bench_crowd_run(bench_row *row, const bench_course *course, uint64_t *cpu_ns,
                     uint64_t *wall_ns, bool *is_done, bench_failure *failure);

#endif
