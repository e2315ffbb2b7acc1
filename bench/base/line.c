/* line.c - see line.h. */
#include "bench/base/line.h"

#include <stdarg.h>
#include <stdio.h>

void bench_line_put(bench_line *line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line->text + line->used, BENCH_LINE_BYTES - line->used, format, args);
    va_end(args);
    size_t room = BENCH_LINE_BYTES - 1 - line->used;
    line->used += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room;
}

void bench_line_size(bench_line *line, double bytes)
{
    static const double mib = 1 << 20;
    if (bytes >= 1024 * mib) {
        bench_line_put(line, "%.2f GiB", bytes / (1024 * mib));
    } else if (bytes >= mib / 10 || bytes == 0) {
        bench_line_put(line, "%.1f MiB", bytes / mib);
    } else {
        bench_line_put(line, "%.1f KiB", bytes / 1024);
    }
}

void bench_line_count(bench_line *line, uint64_t count)
{
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)count);
    for (int i = 0; i < length; i++) {
        bench_line_put(line, i > 0 && (length - i) % 3 == 0 ? ",%c" : "%c", digits[i]);
    }
}
