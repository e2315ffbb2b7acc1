/* rows.h - how a cell of `pleat ab` is written to files: rows of the CSV, objects of the JSON
 * lines. */
#ifndef PLEAT_BENCH_ROWS_H
#define PLEAT_BENCH_ROWS_H

#include "bench/ab/plan.h"
#include "bench/run/output.h"

/* False when writing fails. */
bool bench_rows_heading(const bench_ab_plan *plan, FILE *file);
bool bench_rows_write(const bench_ab_plan *plan, const bench_ab_cell *cell, FILE *file);

/* The object of a cell in results.jsonl. */
json_t *bench_rows_object(const bench_ab_plan *plan, const bench_ab_cell *cell);

/* The first line of timelines.jsonl: which runs on which machine, and how many are done. */
json_t *bench_rows_head(const bench_ab_plan *plan, bool is_interrupted);
/* The object, which goes, as a line that the caller frees; NULL when out of host memory. */
char *bench_rows_line(json_t *object);
/* The line of a cell's timeline, which the caller frees; NULL when out of host memory. */
char *bench_rows_timeline(const bench_ab_cell *cell, const bench_timeline *timeline);

#endif
