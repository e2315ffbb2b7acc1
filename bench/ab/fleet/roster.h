/* roster.h - the works of a fleet and how they are shared out among its shards.
 *
 * Every process makes the same roster by itself, so none of them needs to know of the others:
 *
 * R1  The works are sorted by what was typed for them, byte by byte.
 * R2  A work's weight is its events, of a file as its size tells them, plus what starting its runs
 *     costs.
 * R3  The heaviest work that is left goes to the shard that has least, of those the first.
 *
 * So the heaviest shard has at most 4/3 - 1/(3 N) of the least possible (R. L. Graham, Bounds on
 * multiprocessing timing anomalies, 1969), and with many works hardly more than the mean. */
#ifndef PLEAT_BENCH_ROSTER_H
#define PLEAT_BENCH_ROSTER_H

#include <stdint.h>

#include "bench/base/failure.h"
#include "bench/base/text.h"

typedef struct bench_roster_work {
    char *spec;                  /* as it was typed, or as the shell's pattern found it */
    char name[BENCH_NAME_BYTES]; /* different ones: the usual, or the spec */
    uint64_t size;               /* bytes of a file, events of anything else */
    double weight;
    unsigned shard;
} bench_roster_work;

typedef struct bench_roster {
    bench_roster_work *works;
    unsigned n;
    char digest[24]; /* of all specs and sizes: two that differ are of different works */
} bench_roster;

/* False and a message: a file is missing, a generator's parameter is bad, a work is given twice,
 * or out of host memory. Call bench_roster_fini in either case. */
bool bench_roster_init(bench_roster *roster, char **specs, unsigned n, unsigned n_shards,
                       bench_failure *failure);
void bench_roster_fini(bench_roster *roster);

/* The weight of a shard; the mean of all. */
double bench_roster_of(const bench_roster *roster, unsigned shard);
double bench_roster_mean(const bench_roster *roster, unsigned n_shards);

/* Works as they were typed, where a pattern such as 'jobs/?/[a-f]*.pickle' stands for the files
 * that it finds: thousands of names may be more than a command line takes. What finds nothing stays
 * as it is. A file with the snapshots of several ranks stands for all of them. The result is the
 * caller's, for good; NULL: out of host memory. */
char **bench_roster_expand(char **specs, unsigned *n);

#endif
