/* params.h - rows of a generator's table of parameters. */
#ifndef PLEAT_BENCH_PARAMS_H
#define PLEAT_BENCH_PARAMS_H

#include "bench/work/generator.h"

/* A whole number from `l` to `m`. */
#define BENCH_WHOLE(n, d, s, l, m)                                                                 \
    {                                                                                              \
        .name = (n), .doc = (d), .standard = (s), .least = (l), .most = (m), .is_whole = true      \
    }
/* One of the words `w`. */
#define BENCH_CHOICE(n, d, w, s)                                                                   \
    {                                                                                              \
        .name = (n), .doc = (d), .words = (w), .standard = (s)                                     \
    }
/* The width of a logarithmic normal distribution. */
#define BENCH_SIGMA(n, s)                                                                          \
    {                                                                                              \
        .name = (n), .doc = "of the lengths' logarithmic normal distribution; 0 = fixed",          \
        .standard = (s), .least = 0, .most = 4                                                     \
    }

extern const char *const bench_no_yes[]; /* in generators.c */

#endif
