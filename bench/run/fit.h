/* fit.h - searches the least device memory for a trace. */
#ifndef PLEAT_BENCH_FIT_H
#define PLEAT_BENCH_FIT_H

#include "bench/run/replay.h"

/* Bisects between [peak live rounded down to 2 MiB, less 2 MiB] and the peak resident of the
 * unlimited run rounded up to 2 MiB, to max(2 MiB, 0.05 % of peak live). A run completes when no
 * allocation failed and no hazard was seen. Success is not strictly monotonic in memory: the least
 * success found is reported. `options`: memory_bytes and stop_at_failure are ignored.
 *
 * `out` is the record of the least run. If not even the unlimited run completes, `out` is its
 * record, with least_memory_bytes 0. False and a message as bench_replay. */
bool bench_fit(const bench_work *work, const bench_replay_options *options, bench_record *out,
               bench_failure *failure);

#endif
