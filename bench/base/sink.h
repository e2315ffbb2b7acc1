/* sink.h - a file that is written completely or not at all, as text or gzip. */
#ifndef PLEAT_BENCH_SINK_H
#define PLEAT_BENCH_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <zlib.h>

#include "bench/base/failure.h"

typedef struct bench_sink {
    const char *path;
    gzFile file; /* NULL = not open */
    bool replaces;
} bench_sink;

/** Begin a file that will be `path`. Until the end all output goes to a temporary file beside
 * `path`.
 *
 *  Params   replaces: an existing file is replaced at the end; else it is an error.
 *  Returns  false and a message.
 *  Threads  one sink at a time: SIGINT, SIGTERM and SIGHUP unlink the temporary file and end the
 *           process meanwhile. */
bool bench_sink_open(bench_sink *sink, const char *path, bool is_gzip, bool replaces,
                     bench_failure *failure);

bool bench_sink_write(bench_sink *sink, const char *text, size_t n, bench_failure *failure);
/* Write the error of the last gz...(sink->file) call; returns false. */
bool bench_sink_complain(const bench_sink *sink, bench_failure *failure);

/** End the file. The file gets its name if `is_whole`; else the file is unlinked. The sink may be
 *  closed already.
 *
 *  Returns  is_whole, unless that failed: then false, a message, and `path` is as before. */
bool bench_sink_close(bench_sink *sink, bool is_whole, bench_failure *failure);

#endif
