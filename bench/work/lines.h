/* lines.h - reads the lines of a text file, gzip or plain, in order. */
#ifndef PLEAT_BENCH_LINES_H
#define PLEAT_BENCH_LINES_H

#include "bench/work/inflate.h"

typedef struct bench_lines bench_lines;

/* NULL and a message when the file cannot be read. `limits` may be NULL. */
bench_lines *bench_lines_open(const char *path, const bench_limits *limits, bench_failure *failure);
void bench_lines_close(bench_lines *lines);

/* 1: [*begin, *end) is the next line without newline, valid until the next call. 0: no more lines.
 * -1 and a message with file and line: a damaged, cut or too large file, or an absurdly long
 * line. */
int bench_lines_next(bench_lines *lines, const char **begin, const char **end,
                     bench_failure *failure);
uint64_t bench_lines_number(const bench_lines *lines); /* of the last line, from 1 */

#endif
