/* inflate.c - see inflate.h. zlib tells gzip from plain files by their first bytes. */
#include "bench/work/inflate.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/base/size.h"

static uint64_t usual_limit(uint64_t file_bytes)
{
    uint64_t most = BENCH_INFLATE_MOST;
    if (file_bytes < (most - BENCH_INFLATE_BASE) / BENCH_INFLATE_RATIO) {
        most = BENCH_INFLATE_BASE + BENCH_INFLATE_RATIO * file_bytes;
    }
    return most;
}

bool bench_inflate_open(bench_inflate *inflate, const char *path, const bench_limits *limits,
                        bench_failure *failure)
{
    struct stat st = { .st_size = 0 };
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        return bench_fail(failure, "%s: is a directory", path);
    }
    errno = 0;
    *inflate = (bench_inflate){ .file = gzopen(path, "rb") };
    if (!inflate->file) {
        return bench_fail(failure, "%s: %s", path, errno ? strerror(errno) : "out of host memory");
    }
    gzbuffer(inflate->file, 128u << 10);
    inflate->most_bytes = limits && limits->inflated_bytes ? limits->inflated_bytes
                                                           : usual_limit((uint64_t)st.st_size);
    inflate->file_bytes = (double)st.st_size;
    inflate->progress = limits && st.st_size > 0 ? limits->progress : NULL;
    return true;
}

void bench_inflate_close(bench_inflate *inflate)
{
    gzclose_r(inflate->file);
}

static int damaged(bench_inflate *inflate)
{
    int error;
    const char *text = gzerror(inflate->file, &error);
    const char *reason = strrchr(text, ':'); /* zlib puts the path in front */
    reason = reason ? reason + 2 : text;
    if (error == Z_BUF_ERROR) {
        snprintf(inflate->problem, sizeof inflate->problem,
                 "the gzip data ends too early: the file is cut short, at %.0f bytes. Copy it "
                 "again",
                 inflate->file_bytes);
    } else if (error == Z_ERRNO) {
        snprintf(inflate->problem, sizeof inflate->problem, "%s", strerror(errno));
    } else {
        snprintf(inflate->problem, sizeof inflate->problem, "the gzip data is damaged (%s)",
                 reason);
    }
    return -1;
}

static int too_large(bench_inflate *inflate)
{
    char most[32];
    snprintf(inflate->problem, sizeof inflate->problem,
             "the gzip data decompresses to more than %s, which the file's size makes suspect; "
             "inflate=SIZE behind the name allows more",
             bench_size_format(inflate->most_bytes, most, sizeof most));
    return -1;
}

int bench_inflate_read(bench_inflate *inflate, void *out, unsigned n)
{
    int got = gzread(inflate->file, out, n);
    if (got < 0) {
        return damaged(inflate);
    }
    if (got == 0) {
        int error;
        gzerror(inflate->file, &error);
        return error == Z_OK || error == Z_STREAM_END ? 0 : damaged(inflate);
    }
    inflate->n_bytes += (unsigned)got;
    if (inflate->progress) {
        bench_progress_step(inflate->progress,
                            (double)gzoffset(inflate->file) / inflate->file_bytes);
    }
    if (inflate->n_bytes > inflate->most_bytes && !gzdirect(inflate->file)) {
        return too_large(inflate);
    }
    return got;
}
