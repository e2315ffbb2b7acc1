/* merge.h - makes the rows, verdicts and page of a fleet from the files of its shards. */
#ifndef PLEAT_BENCH_MERGE_H
#define PLEAT_BENCH_MERGE_H

#include <stdbool.h>

#include "bench/base/failure.h"

typedef struct bench_merged {
    unsigned n_works;
    unsigned n_problems; /* of those, not measured whole */
} bench_merged;

/* Read the shards of `folder`, write the files of a study and fleet.json into `out`, and a summary
 * on stdout, for people or as JSON. The same bytes for the same works and settings, however many
 * shards there were and whatever became of their processes. False and a message: there are no
 * shards, or they are of different studies; some are missing, cut, or hold a work twice, which are
 * named; or `out` cannot be written. Then nothing was written, but for that last case. */
bool bench_merge(const char *folder, const char *out, bool is_json, bench_merged *merged,
                 bench_failure *failure);

#endif
