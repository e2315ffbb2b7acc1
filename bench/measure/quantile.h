/* quantile.h - exact quantiles of recorded times. */
#ifndef PLEAT_BENCH_TAIL_QUANTILE_H
#define PLEAT_BENCH_TAIL_QUANTILE_H

#include <stddef.h>

void bench_quantile_sort(float *values, size_t n);
/* The least value that at least a share of 1 - 1/parts of the values does not exceed; n > 0. */
double bench_quantile(const float *sorted, size_t n, size_t parts);

#endif
