/* page.h - a file of metrics, as the option `metrics` writes them (docs/metrics.md), read back. */
#ifndef PLEAT_BENCH_TOP_PAGE_H
#define PLEAT_BENCH_TOP_PAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "bench/base/failure.h"

typedef struct bench_sample {
    const char *name;
    const char *labels; /* between the braces */
    double value;
} bench_sample;

typedef struct bench_page {
    char *text; /* the samples point into it */
    bench_sample *samples;
    size_t n_samples;
    long pid;
    bool is_running;
    double written_s; /* since the Unix epoch */
} bench_page;

/* The most bytes that a page may have. */
enum { BENCH_PAGE_BYTES = 16 << 20 };

/* Read the file. False and a message: unreadable, or no metrics of pleat. is_own: the file must
 * belong to this user. */
bool bench_page_read(const char *path, bool is_own, bench_page *out, bench_failure *failure);
/* Parse a text in place of a file. The text is freed with the page, or by this call. */
bool bench_page_parse(const char *path, char *text, bench_page *out, bench_failure *failure);
void bench_page_free(bench_page *page);

/* Copy the value of a label; "" if there is no such label. Returns `out`. */
const char *bench_page_label(const bench_sample *sample, const char *key, char *out, size_t n);
/* The sum of all samples called `name` with the instance and device of `of` and, unless NULL, with
 * `tag`. Negative: no such samples. */
double bench_page_value(const bench_page *page, const bench_sample *of, const char *name,
                        const char *tag);

#endif
