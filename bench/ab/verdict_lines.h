/* verdict_lines.h - the lines of a verdict. */
#ifndef PLEAT_BENCH_VERDICT_LINES_H
#define PLEAT_BENCH_VERDICT_LINES_H

#include "bench/ab/verdict.h"

/* Say what a recording leaves out of its run, and which command records the whole. A whole
 * recording gets an empty text. For commands that reach no verdict. */
void bench_verdict_recorded(const bench_told *told, char out[BENCH_VERDICT_BYTES]);

/* Write out->lines; all else of `out` is reached. */
void bench_verdict_write_lines(const bench_verdict_input *input, bench_verdict *out);

#endif
