/* rank.h - which part of a fleet's work a process does: part K of N, given or found in the
 * environment that a launcher set. */
#ifndef PLEAT_BENCH_RANK_H
#define PLEAT_BENCH_RANK_H

#include "bench/base/failure.h"

enum { BENCH_MOST_SHARDS = 99999 }; /* five digits in the names of files */

typedef struct bench_rank {
    unsigned index; /* from 0 */
    unsigned n;
    char source[64]; /* for people: "--shard", "SLURM_PROCID" */
} bench_rank;

/* Read K/N, `auto`, or `auto/N`, which says N where the launcher does not (Kubernetes). False and a
 * message when it is neither, when no launcher's variables are set, or when they disagree with N.
 *
 * `auto` looks, in this order, at Open MPI, PMI (MPICH, Intel MPI), Slurm and Kubernetes: a
 * launcher started inside another one's allocation comes first. */
bool bench_rank_read(const char *text, bench_rank *out, bench_failure *failure);

#endif
