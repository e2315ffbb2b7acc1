/* bytes.c - reads a whole file into memory, gzip or plain. */
#include "bench/pickle/bytes.h"

#include <stdlib.h>

#define FIRST_BYTES ((size_t)1 << 16)
#define MOST_PIECE ((size_t)1 << 28) /* zlib counts in int */

/* Read up to `n` bytes; *got is the number read. */
static bool fill(bench_inflate *file, unsigned char *out, size_t n, size_t *got)
{
    int more = 1;
    *got = 0;
    while (*got < n && more > 0) {
        size_t piece = n - *got < MOST_PIECE ? n - *got : MOST_PIECE;
        more = bench_inflate_read(file, out + *got, (unsigned)piece);
        *got += more > 0 ? (size_t)more : 0;
    }
    return more >= 0;
}

static bool complain(const bench_inflate *file, const char *path, size_t at, bench_failure *failure)
{
    return bench_fail(failure, "%s: byte %zu: %s", path, at, file->problem);
}

static bool grow(bench_bytes *bytes, size_t *capacity)
{
    size_t more = *capacity ? 2 * *capacity : FIRST_BYTES;
    unsigned char *data = realloc(bytes->data, more);
    if (data) {
        bytes->data = data;
        *capacity = more;
    }
    return data != NULL;
}

static bool read_all(bench_inflate *file, const char *path, bench_bytes *out,
                     bench_failure *failure)
{
    size_t capacity = 0;
    while (out->n == capacity) {
        if (!grow(out, &capacity)) {
            return bench_fail(failure, "%s: out of host memory", path);
        }
        size_t got;
        bool ok = fill(file, out->data + out->n, capacity - out->n, &got);
        out->n += got;
        if (!ok) {
            return complain(file, path, out->n, failure);
        }
        if (out->n > BENCH_MOST_BYTES) {
            return bench_fail(failure, "%s: more than 4 GiB when decompressed", path);
        }
    }
    return true;
}

bool bench_bytes_read(const char *path, const bench_limits *limits, bench_bytes *out,
                      bench_failure *failure)
{
    bench_inflate file;
    if (!bench_inflate_open(&file, path, limits, failure)) {
        return false;
    }
    bench_bytes bytes = { .n = 0 };
    bool ok = read_all(&file, path, &bytes, failure);
    bench_inflate_close(&file);
    if (ok) {
        *out = bytes;
    } else {
        free(bytes.data);
    }
    return ok;
}

void bench_bytes_free(bench_bytes *bytes)
{
    free(bytes->data);
    *bytes = (bench_bytes){ .n = 0 };
}

bool bench_bytes_peek(const char *path, char *out, size_t n, size_t *got, bench_failure *failure)
{
    bench_inflate file;
    if (!bench_inflate_open(&file, path, NULL, failure)) {
        return false;
    }
    bool ok = fill(&file, (unsigned char *)out, n, got) || complain(&file, path, *got, failure);
    bench_inflate_close(&file);
    return ok;
}
