/* line.h - a line of a verdict, which grows at its end. */
#ifndef PLEAT_BENCH_LINE_H
#define PLEAT_BENCH_LINE_H

#include <stddef.h>
#include <stdint.h>

enum { BENCH_LINE_BYTES = 1024 };

/* `text` has BENCH_LINE_BYTES bytes; what does not fit is cut. */
typedef struct bench_line {
    char *text;
    size_t used;
} bench_line;

void bench_line_put(bench_line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void bench_line_size(bench_line *line, double bytes);    /* "9.38 GiB", "512.0 MiB", "4.0 KiB" */
void bench_line_count(bench_line *line, uint64_t count); /* "9,377" */

#endif
