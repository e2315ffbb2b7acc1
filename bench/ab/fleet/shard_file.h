/* shard_file.h - what one process of a fleet writes: JSON lines, a head and one line a work.
 *
 *   shard-00003-of-00256.jsonl            a whole shard: it was renamed when it was complete
 *   shard-00003-of-00256.XXXXXX.part      what a process that still runs, or was killed, has done
 *
 * A line counts if it is whole. Nobody writes to another process's file, so there are no locks. */
#ifndef PLEAT_BENCH_SHARD_FILE_H
#define PLEAT_BENCH_SHARD_FILE_H

#include <jansson.h>

#include "bench/ab/fleet/rank.h"
#include "bench/ab/fleet/roster.h"
#include "bench/ab/plan.h"

enum { BENCH_SHARD_NAME = 64 }; /* bytes of a file's name */

/* Of the whole shard. */
void bench_shard_name(unsigned index, unsigned n, char out[BENCH_SHARD_NAME]);

typedef struct bench_shard_entry {
    char name[BENCH_SHARD_NAME];
    unsigned index;
    unsigned n;
    bool is_part;
} bench_shard_entry;

/* The shards and parts in a folder, by their names; the caller frees them. NULL and *n = 0: there
 * are none. False and a message when the folder cannot be read. */
bool bench_shard_list(const char *folder, bench_shard_entry **out, unsigned *n,
                      bench_failure *failure);

/* What is measured: shards whose heads differ in more than the index cannot be merged. */
json_t *bench_shard_head(const bench_ab_options *options, const bench_setup *setup,
                         const bench_roster *roster, const bench_rank *rank);
/* In words, what differs in other ways than the index; NULL = nothing. */
const char *bench_shard_difference(const json_t *head, const json_t *other, char *out, size_t n);

/* The line of a work. `plan` NULL: it could not be opened, `problem` tells why. is_rank: it names
 * its job. */
json_t *bench_shard_unit(unsigned unit, const bench_roster_work *work, bool is_rank,
                         const bench_ab_plan *plan, const char *problem);

/* A whole line; `at` is its offset in the file. */
typedef struct bench_shard_line {
    json_t *unit; /* has "unit" and "name"; borrowed */
    const char *text;
    size_t n;
    long at;
} bench_shard_line;

/* Visit the whole lines of a file until the visitor returns false; a cut or damaged line ends it,
 * too. Returns the head, which the caller frees. NULL and a message: the file cannot be read, or it
 * has no whole head. */
json_t *bench_shard_read(const char *path, bool (*visit)(void *context, const bench_shard_line *),
                         void *context, bench_failure *failure);

#endif
