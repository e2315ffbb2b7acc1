/* progress.h - one line on stderr that says how far a long run is; only if it is a terminal. */
#ifndef PLEAT_BENCH_PROGRESS_H
#define PLEAT_BENCH_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* `tell`, when not NULL, gets the fraction instead of the terminal: a worker of another process. */
typedef struct bench_progress {
    void (*tell)(void *context, double fraction);
    void *context;
    bool is_terminal;
    uint64_t last_ns;
    char label[128];
} bench_progress;

void bench_progress_init(bench_progress *progress);
void bench_progress_label(bench_progress *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Shows at most ten times a second. */
void bench_progress_step(bench_progress *progress, double fraction);
void bench_progress_clear(bench_progress *progress); /* before other output */

#endif
