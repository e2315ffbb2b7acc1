/* lengths.h - random lengths: of sequences, prompts, outputs.
 *
 * A logarithmic normal distribution with the given median; sigma 0 always gives the median. Built
 * from exact arithmetic only, without functions of libm, whose last bits differ between machines.
 * The normal variate is a sum of twelve uniform draws; the exponential is by squaring. */
#ifndef PLEAT_BENCH_LENGTHS_H
#define PLEAT_BENCH_LENGTHS_H

#include "bench/base/random.h"

typedef struct bench_lengths {
    double median;
    double sigma;
    uint32_t most;     /* longer ones are cut */
    uint32_t multiple; /* lengths are rounded up to it */
} bench_lengths;

/* A number in [0, 1), exact in a double. */
double bench_random_part(bench_random *random);
/* A length from 1 to most. */
uint32_t bench_length_draw(bench_random *random, const bench_lengths *lengths);
/* The longest of n lengths, to which a batch is padded. */
uint32_t bench_length_longest(bench_random *random, const bench_lengths *lengths, uint32_t n);

#endif
