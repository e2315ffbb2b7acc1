/* holders.h - groups the blocks in use at a moment by who allocated them. */
#ifndef PLEAT_BENCH_HOLDERS_H
#define PLEAT_BENCH_HOLDERS_H

#include "bench/run/moment.h"

/* A block in use; of `key` only what tells groups apart. */
typedef struct bench_held {
    bench_holder key;
    uint64_t charged_bytes;
    uint64_t bytes;
} bench_held;

/* Group `n` blocks, and keep the groups with the largest charges in `out`. Changes `blocks`. */
void bench_holders_write(bench_moment *out, bench_held *blocks, size_t n);

#endif
