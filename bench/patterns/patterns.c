/* patterns.c - the published patterns by name. */
#include "bench/patterns/patterns.h"

const bench_generator *const bench_patterns[] = {
    NULL,
};
