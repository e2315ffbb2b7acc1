/* minimalloc.h - static allocation problems: id, lower, upper, size; columns in any order.
 *
 * A buffer lives in the half-open interval [lower, upper). Of equal times, frees come before
 * allocations; otherwise the order of lines decides. Offsets, alignments and other columns are
 * ignored. Source: google/minimalloc. */
#ifndef PLEAT_BENCH_MINIMALLOC_H
#define PLEAT_BENCH_MINIMALLOC_H

#include "bench/work/inflate.h"
#include "bench/work/tape.h"

/* The unit of sizes that turns the problems' optimum, 1,048,576 units, into a gibibyte. */
#define BENCH_MINIMALLOC_SCALE 1024u

/* Sizes are multiplied by `scale`. False and a message with file and line. */
bool bench_minimalloc_read(const char *path, const bench_limits *limits, uint64_t scale,
                           bench_tape *tape, bench_failure *failure);

#endif
