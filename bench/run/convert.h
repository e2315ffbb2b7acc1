/* convert.h - writes any work to a file: a trace, or a log in RMM's format. */
#ifndef PLEAT_BENCH_CONVERT_H
#define PLEAT_BENCH_CONVERT_H

#include "bench/base/progress.h"
#include "bench/works/work.h"

typedef enum bench_format { BENCH_FORMAT_TRACE, BENCH_FORMAT_RMM } bench_format;

/* The format of a file by its ending: .trace or .csv, with .gz behind for gzip. False and a message
 * for any other ending. */
bool bench_format_find(const char *path, bench_format *format, bool *is_gzip,
                       bench_failure *failure);

/** Write all events of `work` to `path`.
 *
 *  In a trace blocks are numbered in the order of allocation. In a log marks are left out, a
 *  pointer is never used twice, and the time of day counts events, a microsecond each.
 *
 *  Params   replaces: an existing file is replaced; else it is an error. `progress` may be NULL.
 *  Returns  false and a message.
 *  Failure  `path` is as before: everything goes to a temporary file beside it, which is renamed at
 *           the end, or unlinked after a failure, SIGINT, SIGTERM or SIGHUP. */
bool bench_convert(const bench_work *work, const char *path, bool replaces,
                   bench_progress *progress, bench_failure *failure);

#endif
