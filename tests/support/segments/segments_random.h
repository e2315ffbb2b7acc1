/* segments_random.h - splitmix64: a small, seeded, reproducible generator (Steele, Lea and Flood,
 * 2014), and the draws for random sequences. */
#ifndef PLEAT_TESTS_SEGMENTS_RANDOM_H
#define PLEAT_TESTS_SEGMENTS_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct random_source {
    uint64_t state;
} random_source;

static inline uint64_t random_next(random_source *r)
{
    uint64_t z = r->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* In [0, n). */
static inline size_t random_below(random_source *r, size_t n)
{
    return (size_t)(random_next(r) % n);
}

/* A number in [least, most]. */
static inline size_t random_between(random_source *r, size_t least, size_t most)
{
    return least + random_below(r, most - least + 1);
}

/* True once in n times, on average. */
static inline bool random_once_in(random_source *r, size_t n)
{
    return random_below(r, n) == 0;
}

/* A number in [1, most]. Every power of two is equally likely, so small numbers are common. */
static inline size_t random_spread(random_source *r, size_t most)
{
    unsigned n_bits = 64u - (unsigned)__builtin_clzll(most);
    size_t top = (size_t)1 << random_below(r, n_bits);
    size_t n = top + random_below(r, top);
    return n < most ? n : most;
}

#endif
