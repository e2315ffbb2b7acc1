/* patterns.c - the published patterns by name. */
#include "bench/patterns/patterns.h"

const bench_generator *const bench_patterns[] = {
    &bench_pytorch_35901,  &bench_httomo_667,         &bench_rmm_1245, &bench_mxnet_11041,
    &bench_growing_vector, &bench_paddle_anchor_pins, &bench_rmm_2507, NULL,
};
