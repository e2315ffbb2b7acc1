/* tables.h - prints the results of `pleat ab` on a terminal, one table per work. */
#ifndef PLEAT_BENCH_TABLES_H
#define PLEAT_BENCH_TABLES_H

#include "bench/ab/plan.h"

/* Print one table per work with a row per allocator: all figures for the last size of the device,
 * failures and device operations for the others. At most 100 columns wide. */
void bench_tables_print(const bench_ab_plan *plan);

#endif
