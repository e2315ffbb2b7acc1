/* generators.c - the generators of training and serving runs, by name. */
#include "bench/generate/generators.h"

#include "bench/generate/params.h"

const char *const bench_no_yes[] = { "no", "yes", NULL };

const bench_generator *const bench_generators[] = {
    &bench_decoder, &bench_moe,   &bench_conv,   &bench_serving,
    &bench_rlhf,    &bench_churn, &bench_loader, NULL,
};
