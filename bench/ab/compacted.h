/* compacted.h - pleat with short:compact, beside pleat, for works that pleat fails on some size.
 *
 * The option is measured beside each replay of pleat, as its chunks are larger from the start.
 * Works that pleat completes on all sizes have no such row. A study with `short` in --conf or
 * PLEAT_CONF has none, nor has a fleet. */
#ifndef PLEAT_BENCH_COMPACTED_H
#define PLEAT_BENCH_COMPACTED_H

#include "bench/ab/plan.h"

/* Is the cell one of pleat's, and is the option left to us? If so, `out` is `from` with
 * short:compact. */
bool bench_compacted_setup(const bench_ab_plan *plan, const bench_ab_cell *cell,
                           const bench_setup *from, bench_setup *out);
/* Note what was measured beside `cell`. `cards`: of a cell of cards. False when out of host
 * memory. */
bool bench_compacted_keep(bench_ab_cell *cell, const bench_ab_result *result,
                          const bench_ab_card cards[BENCH_N_CARDS]);

/* The index of pleat among the allocators, or their number. */
unsigned bench_compacted_pleat(const bench_ab_plan *plan);
/* Does the work have the row? */
bool bench_compacted_has(const bench_ab_plan *plan, unsigned work);
/* With short:compact; `of` is a cell of pleat's. */
const bench_ab_cell *bench_compacted_cell(const bench_ab_cell *of);
/* The same under its name, if `cell` is a replay of pleat's and its work has the row. */
bool bench_compacted_row(const bench_ab_plan *plan, const bench_ab_cell *cell, bench_ab_cell *out);

#endif
