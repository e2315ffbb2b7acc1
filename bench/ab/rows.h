/* rows.h - what is written of a cell of `pleat ab`: rows of the CSV, objects of the JSON lines. */
#ifndef PLEAT_BENCH_ROWS_H
#define PLEAT_BENCH_ROWS_H

#include "bench/ab/plan.h"
#include "bench/run/output.h"

/* False when the file cannot take it. */
bool bench_rows_heading(FILE *file);
bool bench_rows_write(const bench_ab_plan *plan, const bench_ab_cell *cell, FILE *file);

/* The object of a cell in results.jsonl. */
json_t *bench_rows_object(const bench_ab_plan *plan, const bench_ab_cell *cell);

/* The first line of timelines.jsonl: what was run where, and how much of it. */
json_t *bench_rows_head(const bench_ab_plan *plan, bool is_interrupted);
/* The line of a cell's timeline, to be freed; NULL when out of host memory. */
char *bench_rows_timeline(const bench_ab_cell *cell, const bench_timeline *timeline);

#endif
