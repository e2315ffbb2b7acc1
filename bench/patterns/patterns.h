/* patterns.h - published patterns of requests on which caching allocators run out of memory, or
 * do far more work than they need. */
#ifndef PLEAT_BENCH_PATTERNS_H
#define PLEAT_BENCH_PATTERNS_H

#include "bench/work/generator.h"

extern const bench_generator *const bench_patterns[]; /* NULL at the end */

#endif
