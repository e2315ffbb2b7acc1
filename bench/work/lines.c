/* lines.c - the lines of a text file, gzip or plain.
 *
 * Decompressed bytes go into one buffer, and a line is a view into the buffer. An unfinished line
 * moves to the front before the buffer is filled again. */
#include "bench/work/lines.h"

#include <stdlib.h>
#include <string.h>

#define BUFFER_BYTES (256u << 10)
#define LONGEST_LINE (64u << 10)

struct bench_lines {
    bench_inflate file;
    const char *path; /* the caller's */
    uint64_t number;
    char *begin; /* unread bytes */
    char *end;
    bool at_end;
    char buffer[BUFFER_BYTES];
};

bench_lines *bench_lines_open(const char *path, const bench_limits *limits, bench_failure *failure)
{
    bench_lines *lines = malloc(sizeof *lines);
    if (!lines) {
        bench_fail(failure, "%s: out of host memory", path);
        return NULL;
    }
    if (!bench_inflate_open(&lines->file, path, limits, failure)) {
        free(lines);
        return NULL;
    }
    lines->path = path;
    lines->number = 0;
    lines->begin = lines->end = lines->buffer;
    lines->at_end = false;
    return lines;
}

void bench_lines_close(bench_lines *lines)
{
    bench_inflate_close(&lines->file);
    free(lines);
}

uint64_t bench_lines_number(const bench_lines *lines)
{
    return lines->number;
}

/* Reads more bytes after the unfinished line. 1, or -1 with a message: the error lies in or after
 * the next line. */
static int fill(bench_lines *lines, bench_failure *failure)
{
    size_t kept = (size_t)(lines->end - lines->begin);
    memmove(lines->buffer, lines->begin, kept);
    lines->begin = lines->buffer;
    lines->end = lines->buffer + kept;
    int n = bench_inflate_read(&lines->file, lines->end, (unsigned)(BUFFER_BYTES - kept));
    if (n < 0) {
        bench_fail(failure, "%s:%llu: %s", lines->path, (unsigned long long)lines->number + 1,
                   lines->file.problem);
        return -1;
    }
    lines->end += n;
    lines->at_end = n == 0;
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
