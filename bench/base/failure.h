/* failure.h - one error message for a person, with the place of the error. */
#ifndef PLEAT_BENCH_FAILURE_H
#define PLEAT_BENCH_FAILURE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

typedef struct bench_failure {
    char text[1024]; /* room for a work's whole name and the problem */
} bench_failure;

/* Writes the message; always returns false, for `return bench_fail(...)`. */
static inline __attribute__((format(printf, 2, 3))) bool bench_fail(bench_failure *out,
                                                                    const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(out->text, sizeof out->text, format, args);
    va_end(args);
    return false;
}

#endif
