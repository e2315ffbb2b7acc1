/* parts.h - the snapshots in a file: one, or one of each rank.
 *
 *   {"segments": [...], "device_traces": [...]}     a snapshot
 *   [{"address": ..., "blocks": [...]}, ...]        its segments: torch.cuda.memory_snapshot()
 *   {"rank0": SNAPSHOT, "epoch": 3, ...}            a dictionary of snapshots, and of other things
 *   [SNAPSHOT, SNAPSHOT, ...]                       a list of snapshots
 *
 * A rank is called by its key where that can be typed behind a file's name, or else by its place
 * from 0. */
#ifndef PLEAT_BENCH_PARTS_H
#define PLEAT_BENCH_PARTS_H

#include "bench/import/snapshot.h"
#include "bench/pickle/pickle.h"

/* For bench_pickle_wants. */
bool bench_parts_keeps(const bench_pickle_value *value);

/* The snapshot of `rank`, or with NULL of the only one. False and a message: there is none, several
 * and none is named, or none of that name. */
bool bench_parts_choose(const char *path, const bench_pickle_value *root, const char *rank,
                        const bench_pickle_value **out, bench_failure *failure);

/* The names of several snapshots, in an array to be freed; *n is 0 if there is one or none. False
 * when out of host memory. */
bool bench_parts_name(const bench_pickle_value *root, bench_rank_name **names, unsigned *n);

#endif
