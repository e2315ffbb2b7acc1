/* judge.h - the verdicts of a study: of each work, or of the job whose ranks the works are. */
#ifndef PLEAT_BENCH_JUDGE_H
#define PLEAT_BENCH_JUDGE_H

#include <jansson.h>

#include "bench/ab/plan.h"

/* 1 for a job, else a verdict a work; 0 for works of pinned memory. */
unsigned bench_judge_count(const bench_ab_plan *plan);
/* What is known about verdict i. The texts belong to the plan. */
void bench_judge_input(const bench_ab_plan *plan, unsigned i, bench_verdict_input *out);
/* The line that tells such a verdict; its "work" is null for a job. */
json_t *bench_judge_describe(const bench_verdict_input *in);
/* The line of verdict i in verdicts.jsonl. */
json_t *bench_judge_object(const bench_ab_plan *plan, unsigned i);
/* Print all verdicts on stdout. */
void bench_judge_print(const bench_ab_plan *plan);

#endif
