/* patterns.h - published patterns of requests. Caching allocators run out of memory on them, or do
 * far more work than needed. Each file tells the published and the inferred facts, and the expected
 * result of each allocator. */
#ifndef PLEAT_BENCH_PATTERNS_H
#define PLEAT_BENCH_PATTERNS_H

#include "bench/work/generator.h"

extern const bench_generator *const bench_patterns[]; /* NULL at the end */

extern const bench_generator bench_pytorch_35901;
extern const bench_generator bench_httomo_667;
extern const bench_generator bench_rmm_1245;
extern const bench_generator bench_mxnet_11041;
extern const bench_generator bench_growing_vector;
extern const bench_generator bench_paddle_anchor_pins;
extern const bench_generator bench_rmm_2507;

#endif
