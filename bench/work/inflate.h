/* inflate.h - reads the bytes of a file, gzip or plain, in order.
 *
 * A gzip file may decompress to 16 MiB plus 64 times its size, and to at most 4 GiB. Recorded runs
 * grow 4 to 22 times; malicious files grow up to 1,032 times. */
#ifndef PLEAT_BENCH_INFLATE_H
#define PLEAT_BENCH_INFLATE_H

#include <stdint.h>
#include <zlib.h>

#include "bench/base/failure.h"
#include "bench/base/progress.h"

enum { BENCH_INFLATE_RATIO = 64 };
#define BENCH_INFLATE_BASE (UINT64_C(16) << 20)
#define BENCH_INFLATE_MOST (UINT64_C(4) << 30)

/* Limits of reading a file (0 = the usual limits), and the progress to report to. */
typedef struct bench_limits {
    uint64_t inflated_bytes;  /* inflate=SIZE: the most decompressed bytes */
    uint64_t host_bytes;      /* memory=SIZE: the most host memory for the events */
    bench_progress *progress; /* NULL = nobody */
} bench_limits;

typedef struct bench_inflate {
    gzFile file;
    uint64_t n_bytes;    /* read so far */
    uint64_t most_bytes; /* if it is gzip */
    double file_bytes;
    bench_progress *progress;
    char problem[160];
} bench_inflate;

/* `limits` may be NULL. False and a message when the file cannot be opened. */
bool bench_inflate_open(bench_inflate *inflate, const char *path, const bench_limits *limits,
                        bench_failure *failure);
void bench_inflate_close(bench_inflate *inflate);
/* Read at most n bytes; 0 only at the end. -1: `problem` names the fault of the next bytes. */
int bench_inflate_read(bench_inflate *inflate, void *out, unsigned n);

#endif
