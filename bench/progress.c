/* progress.c - one line on stderr that says how far a long run is. */
#include "bench/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "bench/clock.h"

#define INTERVAL_NS UINT64_C(100000000)

void bench_progress_init(bench_progress *progress)
{
    *progress = (bench_progress){ .is_terminal = isatty(STDERR_FILENO) == 1 };
}

void bench_progress_label(bench_progress *progress, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(progress->label, sizeof progress->label, format, args);
    va_end(args);
    progress->last_ns = 0;
}

void bench_progress_step(bench_progress *progress, double fraction)
{
    if (progress->tell) {
        progress->tell(progress->context, fraction);
        return;
    }
    if (!progress->is_terminal) {
        return;
    }
    uint64_t now = bench_now_ns();
    if (now - progress->last_ns < INTERVAL_NS) {
        return;
    }
    progress->last_ns = now;
    fprintf(stderr, "\r\033[K%s  %3.0f %%", progress->label, 100.0 * fraction);
    fflush(stderr);
}

void bench_progress_clear(bench_progress *progress)
{
    if (progress->is_terminal && !progress->tell) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
}
