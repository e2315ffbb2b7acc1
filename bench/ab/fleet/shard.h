/* shard.h - measures one shard of a fleet: the works that are a process's own. */
#ifndef PLEAT_BENCH_SHARD_H
#define PLEAT_BENCH_SHARD_H

#include "bench/ab/fleet/rank.h"
#include "bench/run/workers.h"

#include "bench/ab/plan.h"

/* Measure the works of `rank` that no earlier process of it has, one after another, and put the
 * shard's file into options->out. Prints what it does on `say`, reasons on stderr. What is done
 * stays done however it ends.
 *
 *  Returns  DONE: the file is whole, works that could not be measured included, which it tells;
 *           INTERRUPTED; FAILED: it could not go on. *is_usage: it could not begin. */
bench_workers_end bench_shard_run(const bench_ab_options *options, const bench_rank *rank,
                                  FILE *say, bool *is_usage);

#endif
