/* progress.h - shows the progress of a long run in one line on stderr, if stderr is a terminal. The
 * line stays within 80 columns: a longer line would wrap, and each step would leave a copy
 * behind. */
#ifndef PLEAT_BENCH_PROGRESS_H
#define PLEAT_BENCH_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `tell`, if not NULL, gets the fraction instead of the terminal. Used in worker processes. */
typedef struct bench_progress {
    void (*tell)(void *context, double fraction);
    void *context;
    bool is_terminal;
    uint64_t begin_ns;
    uint64_t last_ns;
    uint64_t n_events; /* of all labelled work; 0 = not known: no rate, no time left */
    char label[4 * 40 + 4];
} bench_progress;

void bench_progress_init(bench_progress *progress);
/* Begin anew with a label of at most 40 shown characters. */
void bench_progress_label(bench_progress *progress, uint64_t n_events, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Shows at most ten times a second. */
void bench_progress_step(bench_progress *progress, double fraction);
void bench_progress_clear(bench_progress *progress); /* before other output */

/* The line shown `seconds` after the beginning. */
void bench_progress_line(const bench_progress *progress, double fraction, double seconds, char *out,
                         size_t n);
/* "42 s", "1:05 min", "2:00 h". */
void bench_progress_left(double seconds, char *out, size_t n);

#endif
