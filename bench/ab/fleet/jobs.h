/* jobs.h - the jobs of a fleet whose works are ranks (`pleat ab --job --shard`): the ranks of one
 * folder are one job, whichever shards measured them.
 *
 * A job's verdict is reached from those of its ranks as `pleat ab --job` reaches it from all of
 * their cells: on a device it fails if one rank does, and is not known if one rank's is not. */
#ifndef PLEAT_BENCH_JOBS_H
#define PLEAT_BENCH_JOBS_H

#include <jansson.h>

#include "bench/ab/plan.h"

/* The job of a work, by what was typed for it; `out` has n bytes. */
const char *bench_job_name(const char *spec, char *out, size_t n);
/* What a rank's line says beside its verdict: what a job's verdict may have to repeat. */
json_t *bench_job_rank(const bench_ab_plan *plan);

/* The jobs so far, in the order of their first ranks; a job is an array of such lines without their
 * rows. The caller frees it: json_decref. NULL: out of host memory. */
json_t *bench_jobs_create(void);
/* Add a rank's line of a shard's file. */
bool bench_jobs_add(json_t *jobs, const json_t *unit, const json_t *allocators);
/* The line of a job: "name", "is_good", "verdict" and, with --fit, "results" that tell its least
 * memory; "problem" where a rank could not be measured. */
json_t *bench_job_unit(const char *name, const json_t *ranks, const json_t *allocators);

#endif
