/* compact.h - compactions of a replay: between two iterations, or when a request is about to fail.
 *
 * The replay's one thread submits all work, so none is submitted meanwhile: what a compaction
 * demands. */
#ifndef PLEAT_BENCH_COMPACT_H
#define PLEAT_BENCH_COMPACT_H

#include "api/pleat.h"

typedef enum bench_compact {
    BENCH_COMPACT_NEVER,
    BENCH_COMPACT_ITERATION, /* between two iterations of the work */
    BENCH_COMPACT_SHORT,     /* when a request is about to fail */
} bench_compact;

/* What they did so far. */
typedef struct bench_compactions {
    uint64_t n;
    uint64_t won_bytes;
} bench_compactions;

/* Compact device 0 and count it. The failure is in pleat_last_error. */
bool bench_compact_now(pleat instance, bench_compactions *sum);
/* From now on requests that are about to fail do so; `sum` stays in use. */
bool bench_compact_when_short(pleat instance, bench_compactions *sum);

#endif
