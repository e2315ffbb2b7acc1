/* lines.c - the lines of a text file, gzip or plain.
 *
 * zlib hands out decompressed bytes into one buffer; a line is a view into it. What is left of an
 * unfinished line moves to the front before the buffer is filled again. */
#include "bench/work/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#define BUFFER_BYTES (256u << 10)
#define LONGEST_LINE (64u << 10)

struct bench_lines {
    gzFile file;
    const char *path; /* the caller's */
    uint64_t number;
    char *begin; /* unread bytes */
    char *end;
    bool at_end;
    char buffer[BUFFER_BYTES];
};

bench_lines *bench_lines_open(const char *path, bench_failure *failure)
{
    struct stat st;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        bench_fail(failure, "%s: is a directory", path);
        return NULL;
    }
    bench_lines *lines = malloc(sizeof *lines);
    if (!lines) {
        bench_fail(failure, "%s: out of host memory", path);
        return NULL;
    }
    errno = 0;
    lines->file = gzopen(path, "rb");
    if (!lines->file) {
        bench_fail(failure, "%s: %s", path, errno ? strerror(errno) : "out of host memory");
        free(lines);
        return NULL;
    }
    gzbuffer(lines->file, 128u << 10);
    lines->path = path;
    lines->number = 0;
    lines->begin = lines->end = lines->buffer;
    lines->at_end = false;
    return lines;
}

void bench_lines_close(bench_lines *lines)
{
    gzclose_r(lines->file);
    free(lines);
}

uint64_t bench_lines_number(const bench_lines *lines)
{
    return lines->number;
}

/* Says what zlib found; the damage lies in or after the line that would come next. */
static int damaged(bench_lines *lines, bench_failure *failure)
{
    int error;
    const char *text = gzerror(lines->file, &error);
    const char *reason = strrchr(text, ':'); /* zlib puts the path in front */
    reason = reason ? reason + 2 : text;
    unsigned long long at = (unsigned long long)lines->number + 1;
    if (error == Z_BUF_ERROR) {
        bench_fail(failure, "%s:%llu: the gzip data ends too early", lines->path, at);
    } else if (error == Z_ERRNO) {
        bench_fail(failure, "%s:%llu: %s", lines->path, at, strerror(errno));
    } else {
        bench_fail(failure, "%s:%llu: the gzip data is damaged (%s)", lines->path, at, reason);
    }
    return -1;
}

/* Fetch more bytes behind the unfinished line. 1, or -1 with a message. */
static int fill(bench_lines *lines, bench_failure *failure)
{
    size_t kept = (size_t)(lines->end - lines->begin);
    memmove(lines->buffer, lines->begin, kept);
    lines->begin = lines->buffer;
    lines->end = lines->buffer + kept;
    int n = gzread(lines->file, lines->end, (unsigned)(BUFFER_BYTES - kept));
    if (n < 0) {
        return damaged(lines, failure);
    }
    lines->end += n;
    if (n == 0) {
        int error;
        gzerror(lines->file, &error);
        if (error != Z_OK && error != Z_STREAM_END) {
            return damaged(lines, failure);
        }
        lines->at_end = true;
    }
    return 1;
}

int bench_lines_next(bench_lines *lines, const char **begin, const char **end,
                     bench_failure *failure)
{
    for (;;) {
        size_t n = (size_t)(lines->end - lines->begin);
        char *newline = memchr(lines->begin, '\n', n);
        if ((newline ? (size_t)(newline - lines->begin) : n) > LONGEST_LINE) {
            bench_fail(failure, "%s:%llu: a line of more than 64 KiB", lines->path,
                       (unsigned long long)lines->number + 1);
            return -1;
        }
        if (newline || (lines->at_end && n > 0)) {
            lines->number++;
            *begin = lines->begin;
            *end = newline ? newline : lines->end;
            lines->begin = newline ? newline + 1 : lines->end;
            return 1;
        }
        if (lines->at_end) {
            return 0;
        }
        if (fill(lines, failure) < 0) {
            return -1;
        }
    }
}
