/* spill.h - keeps events in a temporary file without a name, when they are too many for memory.
 *
 * A tape writes the file once. Afterwards any number of readers may read at once, in this process
 * and in forked children. An event takes 1 to 14 bytes, mostly 3 to 5, and at most as many as its
 * line in a trace:
 *
 *   slot * 4 + kind | stream, of a use or if it is not the last allocation's | bytes, or the mark's
 *                                                                             number, or the use's
 *
 * Each field is stored in groups of 7 bits, the lowest first. The file lies in the folder TMPDIR,
 * or else in /var/tmp, since /tmp may be kept in memory. */
#ifndef PLEAT_BENCH_SPILL_H
#define PLEAT_BENCH_SPILL_H

#include <stdbool.h>
#include <stddef.h>

#include "bench/work/event.h"

typedef struct bench_spill bench_spill;

/* NULL: there is no file, and *problem tells why (static, or valid until the thread's next
 * call). */
bench_spill *bench_spill_create(const char **problem);
void bench_spill_destroy(bench_spill *spill); /* NULL is fine */
/* Add entries. False with *problem: the folder is full, or the disk fails. */
bool bench_spill_write(bench_spill *spill, const bench_event *entries, size_t n,
                       const char **problem);

/* One pass over the file. */
typedef struct bench_spill_reader bench_spill_reader;

/* NULL: out of host memory. `spill` gets no further entries. */
bench_spill_reader *bench_spill_open(const bench_spill *spill);
void bench_spill_close(bench_spill_reader *reader); /* NULL is fine */
/* The next entries, valid until the next call; 0 at the end, SIZE_MAX with *problem when the disk
 * fails. */
size_t bench_spill_next(bench_spill_reader *reader, const bench_event **entries,
                        const char **problem);

#endif
