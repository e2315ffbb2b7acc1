/* generators.c - the generators of training and serving runs, by name. */
#include "bench/generate/generators.h"

const bench_generator *const bench_generators[] = {
    &bench_decoder, &bench_moe, &bench_conv, &bench_churn, NULL,
};
