/* bytes.c - a whole file in memory, gzip or plain. */
#include "bench/import/bytes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#define FIRST_BYTES ((size_t)1 << 16)
#define MOST_PIECE ((size_t)1 << 28) /* zlib counts in int */

static gzFile open_file(const char *path, bench_failure *failure)
{
    struct stat st;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        bench_fail(failure, "%s: is a directory", path);
        return NULL;
    }
    errno = 0;
    gzFile file = gzopen(path, "rb");
    if (!file) {
        bench_fail(failure, "%s: %s", path, errno ? strerror(errno) : "out of host memory");
        return NULL;
    }
    return file;
}

/* Says what zlib found behind `at` good bytes. */
static bool damaged(gzFile file, const char *path, size_t at, bench_failure *failure)
{
    int error;
    const char *text = gzerror(file, &error);
    const char *reason = strrchr(text, ':'); /* zlib puts the path in front */
    reason = reason ? reason + 2 : text;
    if (error == Z_BUF_ERROR) {
        return bench_fail(failure, "%s: byte %zu: the gzip data ends too early", path, at);
    }
    if (error == Z_ERRNO) {
        return bench_fail(failure, "%s: byte %zu: %s", path, at, strerror(errno));
    }
    return bench_fail(failure, "%s: byte %zu: the gzip data is damaged (%s)", path, at, reason);
}

/* As many bytes as there are, up to `n`. -1: damaged. */
static ssize_t fill(gzFile file, unsigned char *out, size_t n)
{
    size_t got = 0;
    while (got < n) {
        size_t piece = n - got < MOST_PIECE ? n - got : MOST_PIECE;
        int more = gzread(file, out + got, (unsigned)piece);
        if (more < 0) {
            return -1;
        }
        if (more == 0) {
            break;
        }
        got += (size_t)more;
    }
    return (ssize_t)got;
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

static bool read_all(gzFile file, const char *path, bench_bytes *out, bench_failure *failure)
{
    size_t capacity = 0;
    while (out->n == capacity) {
        if (!grow(out, &capacity)) {
            return bench_fail(failure, "%s: out of host memory", path);
        }
        ssize_t got = fill(file, out->data + out->n, capacity - out->n);
        if (got < 0) {
            return damaged(file, path, out->n, failure);
        }
        out->n += (size_t)got;
        if (out->n > BENCH_MOST_BYTES) {
            return bench_fail(failure, "%s: more than 4 GiB when decompressed", path);
        }
    }
    int error;
    gzerror(file, &error);
    return error == Z_OK || error == Z_STREAM_END || damaged(file, path, out->n, failure);
}

bool bench_bytes_read(const char *path, bench_bytes *out, bench_failure *failure)
{
    gzFile file = open_file(path, failure);
    if (!file) {
        return false;
    }
    gzbuffer(file, 128u << 10);
    bench_bytes bytes = { .n = 0 };
    bool ok = read_all(file, path, &bytes, failure);
    gzclose_r(file);
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
    gzFile file = open_file(path, failure);
    if (!file) {
        return false;
    }
    ssize_t filled = fill(file, (unsigned char *)out, n);
    *got = filled > 0 ? (size_t)filled : 0;
    int error;
    gzerror(file, &error);
    bool ok = (filled >= 0 && (error == Z_OK || error == Z_STREAM_END)) ||
              damaged(file, path, *got, failure);
    gzclose_r(file);
    return ok;
}
