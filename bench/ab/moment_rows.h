/* moment_rows.h - how a moment is written to moments.jsonl. */
#ifndef PLEAT_BENCH_MOMENT_ROWS_H
#define PLEAT_BENCH_MOMENT_ROWS_H

#include "bench/ab/plan.h"
#include "bench/run/moment.h"

/* The line of a cell's moment, which the caller frees; NULL when out of host memory. */
char *bench_moment_line(const bench_ab_cell *cell, const bench_moment *moment);
/* The same of the moment of a snapshot (state.h). */
char *bench_moment_state_line(const bench_work *work, const bench_moment *moment);

#endif
