/* random.h - splitmix64: a small, seeded, reproducible generator (Steele, Lea and Flood, 2014). */
#ifndef PLEAT_BENCH_RANDOM_H
#define PLEAT_BENCH_RANDOM_H

#include <stdint.h>

typedef struct bench_random {
    uint64_t state;
} bench_random;

static inline uint64_t bench_random_next(bench_random *random)
{
    uint64_t z = random->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* In [least, most]; the bias is below 2^-32 for spans below 2^32. */
static inline uint64_t bench_random_between(bench_random *random, uint64_t least, uint64_t most)
{
    return least + bench_random_next(random) % (most - least + 1);
}

#endif
