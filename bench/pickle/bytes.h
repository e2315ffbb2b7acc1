/* bytes.h - reads a whole file into memory, gzip or plain. */
#ifndef PLEAT_BENCH_BYTES_H
#define PLEAT_BENCH_BYTES_H

#include <stddef.h>

#include "bench/work/inflate.h"

/* The largest decompressed size. Offsets within it fit into 32 bits. */
#define BENCH_MOST_BYTES ((size_t)4294967295u)

typedef struct bench_bytes {
    unsigned char *data;
    size_t n;
} bench_bytes;

/* False and a message when the file cannot be read, is damaged or is cut short. Also when the
 * decompressed size exceeds BENCH_MOST_BYTES or `limits` (NULL: the usual limits). Takes at most
 * twice that size of host memory. */
bool bench_bytes_read(const char *path, const bench_limits *limits, bench_bytes *out,
                      bench_failure *failure);
void bench_bytes_free(bench_bytes *bytes);

/* Read at most the first `n` bytes; *got is the number read. False and a message when the file
 * cannot be read, or is damaged within them. */
bool bench_bytes_peek(const char *path, char *out, size_t n, size_t *got, bench_failure *failure);

#endif
