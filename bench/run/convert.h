/* convert.h - write any work to a file: a trace, or a log as RMM writes them. */
#ifndef PLEAT_BENCH_CONVERT_H
#define PLEAT_BENCH_CONVERT_H

#include "bench/base/progress.h"
#include "bench/work/work.h"

typedef enum bench_format { BENCH_FORMAT_TRACE, BENCH_FORMAT_RMM } bench_format;

/* The format of a file by its ending: .trace or .csv, and .gz behind it for gzip. False and a
 * message when it is another one. */
bool bench_format_find(const char *path, bench_format *format, bool *is_gzip,
                       bench_failure *failure);

/** Write all events of `work` to `path`.
 *
 *  In a trace blocks are numbered in the order of allocation. In a log marks are left out, a
 *  pointer is never used twice, and the time of day counts events, a microsecond each.
 *
 *  Params   replaces: what is there already; else that is an error. `progress` may be NULL.
 *  Returns  false and a message.
 *  Failure  `path` is as before: all goes to a temporary file beside it, which is then renamed, or
 *           unlinked, on SIGINT, SIGTERM and SIGHUP too. */
bool bench_convert(const bench_work *work, const char *path, bool replaces,
                   bench_progress *progress, bench_failure *failure);

#endif
