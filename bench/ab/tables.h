/* tables.h - what `pleat ab` found, on a terminal: a table a work. */
#ifndef PLEAT_BENCH_TABLES_H
#define PLEAT_BENCH_TABLES_H

#include "bench/ab/plan.h"

/* One table a work: a row an allocator; all figures for the last size of the device, failures and
 * device operations for the others. At most 100 columns wide. */
void bench_tables_print(const bench_ab_plan *plan);

#endif
