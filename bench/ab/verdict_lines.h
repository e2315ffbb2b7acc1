/* verdict_lines.h - the lines of a verdict. */
#ifndef PLEAT_BENCH_VERDICT_LINES_H
#define PLEAT_BENCH_VERDICT_LINES_H

#include "bench/ab/verdict.h"

/* Write out->lines; all else of `out` is reached. */
void bench_verdict_write_lines(const bench_verdict_input *input, bench_verdict *out);

#endif
