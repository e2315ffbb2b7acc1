/* bytes.h - a whole file in memory, gzip or plain. */
#ifndef PLEAT_BENCH_BYTES_H
#define PLEAT_BENCH_BYTES_H

#include <stddef.h>

#include "bench/work/inflate.h"

/* Decompressed. Offsets into it fit into 32 bits. */
#define BENCH_MOST_BYTES ((size_t)4294967295u)

typedef struct bench_bytes {
    unsigned char *data;
    size_t n;
} bench_bytes;

/* False and a message when the file cannot be read, is damaged, cut short, larger than
 * BENCH_MOST_BYTES or than `limits` (NULL: the usual ones) once decompressed. Takes at most twice
 * that size of host memory. */
bool bench_bytes_read(const char *path, const bench_limits *limits, bench_bytes *out,
                      bench_failure *failure);
void bench_bytes_free(bench_bytes *bytes);

/* The first bytes, at most `n` of them; *got is how many there are. False and a message when the
 * file cannot be read, or is damaged behind them. */
bool bench_bytes_peek(const char *path, char *out, size_t n, size_t *got, bench_failure *failure);

#endif
