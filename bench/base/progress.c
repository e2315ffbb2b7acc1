/* progress.c - shows the progress of a long run in one line on stderr. */
#include "bench/base/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/base/text.h"
#include "vmm/base/clock.h"

enum { LABEL_COLUMNS = 40, LINE_BYTES = 256 };

#define INTERVAL_NS UINT64_C(100000000)

void bench_progress_init(bench_progress *progress)
{
    *progress = (bench_progress){ .is_terminal = isatty(STDERR_FILENO) == 1 };
}

void bench_progress_label(bench_progress *progress, uint64_t n_events, const char *format, ...)
{
    char text[2 * BENCH_NAME_BYTES];
    char clean[sizeof text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    bench_text_clean(text, strlen(text), clean, sizeof clean);
    bench_text_cut(clean, LABEL_COLUMNS, progress->label, sizeof progress->label);
    progress->n_events = n_events;
    progress->begin_ns = pl_clock_ns();
    progress->last_ns = 0;
}

void bench_progress_left(double seconds, char *out, size_t n)
{
    unsigned long s = (unsigned long)(seconds + 0.5);
    if (s < 60) {
        snprintf(out, n, "%lu s", s);
    } else if (s < 3600) {
        snprintf(out, n, "%lu:%02lu min", s / 60, s % 60);
    } else {
        snprintf(out, n, "%lu:%02lu h", s / 3600, s / 60 % 60);
    }
}

void bench_progress_line(const bench_progress *progress, double fraction, double seconds, char *out,
                         size_t n)
{
    int used = snprintf(out, n, "%s  %3.0f %%", progress->label, 100.0 * fraction);
    if (progress->n_events > 0 && fraction > 0.0 && seconds >= 0.1) {
        char left[32];
        bench_progress_left(seconds * (1.0 - fraction) / fraction, left, sizeof left);
        snprintf(out + used, n - (size_t)used, ", %.1f M events/s, %s left",
                 fraction * (double)progress->n_events / seconds / 1e6, left);
    }
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
    uint64_t now = pl_clock_ns();
    if (now - progress->last_ns < INTERVAL_NS) {
        return;
    }
    progress->last_ns = now;
    char line[LINE_BYTES];
    bench_progress_line(progress, fraction, (double)(now - progress->begin_ns) / 1e9, line,
                        sizeof line);
    fprintf(stderr, "\r\033[K%s", line);
    fflush(stderr);
}

void bench_progress_clear(bench_progress *progress)
{
    if (progress->is_terminal && !progress->tell) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
}
