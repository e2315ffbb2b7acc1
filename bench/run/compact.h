/* compact.h - compactions of a replay: between two iterations, or when a request is about to fail.
 *
 * The replay's only thread submits all work. So no work is submitted during a compaction, as
 * required. */
#ifndef PLEAT_BENCH_COMPACT_H
#define PLEAT_BENCH_COMPACT_H

#include "api/pleat.h"

typedef enum bench_compact {
    BENCH_COMPACT_NEVER,
    BENCH_COMPACT_ITERATION, /* between two iterations of the work */
    BENCH_COMPACT_SHORT,     /* when a request is about to fail */
} bench_compact;

/* Totals of the compactions so far. */
typedef struct bench_compactions {
    uint64_t n;
    uint64_t won_bytes;
} bench_compactions;

/* Compact device 0 and count it. The failure is in pleat_last_error. */
bool bench_compact_now(pleat instance, bench_compactions *sum);
/* From now on, compact when a request is about to fail; `sum` stays in use. */
bool bench_compact_when_short(pleat instance, bench_compactions *sum);

#endif
