/* table.h - the figures of `pleat bench pairs` as tables or as JSON lines. */
#ifndef PLEAT_BENCH_PAIRS_TABLE_H
#define PLEAT_BENCH_PAIRS_TABLE_H

#include "bench/pairs/pair_cell.h"

typedef struct bench_table {
    bool is_json;
    /* By row, for threads:1 and threads:1,hot; 0 = not measured yet. */
    double single_wall_ns[2][BENCH_THROUGH_MOST];
} bench_table;

/* Prints the heading of the whole output. */
void bench_table_begin(bench_table *table, bool is_json, unsigned n_runs, unsigned n_rounds);
/* Prints a scenario. `instructions` of a unit: negative = not counted. */
void bench_table_add(bench_table *table, const bench_scenario *scenario,
                     const bench_cell_result *result, const bench_through_kind *const *kinds,
                     unsigned n_kinds, const double *instructions);

#endif
