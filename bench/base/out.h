/* out.h - reports lost output: standard output, or a file, did not take the written text. */
#ifndef PLEAT_BENCH_OUT_H
#define PLEAT_BENCH_OUT_H

#include <stdbool.h>
#include <stdio.h>

#include "bench/base/failure.h"

/* Call once, before anything is opened or written. A standard descriptor that is closed is opened
 * on /dev/null, so no file gets its number: what is written to standard output then is lost output.
 * From then on, if output is lost, the process ends with
 * status 2 and one line on stderr. This happens at the exit (a full disk, /dev/full), or at once
 * when the reader of a pipe has gone. Children that end by _exit print no such line. */
void bench_out_guard(void);

/* Closes a file that was written. False: not all of it is there, and `failure` has the reason. */
bool bench_out_close(FILE *file, const char *path, bench_failure *failure);

#endif
