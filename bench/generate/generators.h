/* generators.h - the generators of training and serving runs. */
#ifndef PLEAT_BENCH_GENERATORS_H
#define PLEAT_BENCH_GENERATORS_H

#include "bench/work/generator.h"

extern const bench_generator *const bench_generators[]; /* NULL at the end */

extern const bench_generator bench_decoder;
extern const bench_generator bench_moe;
extern const bench_generator bench_conv;
extern const bench_generator bench_serving;
extern const bench_generator bench_rlhf;
extern const bench_generator bench_churn;
extern const bench_generator bench_loader;

#endif
