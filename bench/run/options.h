/* options.h - what `pleat replay`, `pleat fit` and `pleat ab` are asked for: allocators, a device,
 * works. */
#ifndef PLEAT_BENCH_OPTIONS_H
#define PLEAT_BENCH_OPTIONS_H

#include <stdbool.h>

#include "bench/base/size.h"
#include "bench/run/replay.h"

enum { BENCH_MAX_ALLOCATORS = 16, BENCH_MAX_DEPTH = 1 << 20 };

typedef struct bench_options {
    const char *allocators[BENCH_MAX_ALLOCATORS]; /* the registry's own strings */
    unsigned n_allocators;
    bench_target target;
    bench_memory memory;
    unsigned loops;
    bool compact; /* between two iterations; replay and fit */
    bool json;
    char **works;
    unsigned n_works;
    bool has_no_work; /* set by another option: then no work may be given */
} bench_options;

void bench_options_init(bench_options *options);

#endif
