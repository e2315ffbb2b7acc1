/* quantile.c - exact quantiles of recorded times, by sorting. */
#include "bench/measure/quantile.h"

#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a;
    float y = *(const float *)b;
    return (x > y) - (x < y);
}

void bench_quantile_sort(float *values, size_t n)
{
    qsort(values, n, sizeof *values, by_size);
}

double bench_quantile(const float *sorted, size_t n, size_t parts)
{
    return (double)sorted[n - 1 - n / parts];
}
