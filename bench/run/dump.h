/* dump.h - a snapshot of a replay in PyTorch's format: its moment and file. */
#ifndef PLEAT_BENCH_DUMP_H
#define PLEAT_BENCH_DUMP_H

#include "api/pleat.h"
#include "bench/base/failure.h"
#include "bench/works/work.h"

/* Moments of a replay. Of several snapshots the last one is kept. */
typedef enum bench_dump_at {
    BENCH_DUMP_NATURAL, /* the first failed allocation, else the peak */
    BENCH_DUMP_PEAK,    /* the first peak of live bytes, or the end if failures prevent it */
    BENCH_DUMP_END,     /* after the last event, before live blocks are freed */
    BENCH_DUMP_FAILURE, /* the first failed allocation */
} bench_dump_at;

typedef struct bench_dump {
    const char *path;
    bench_dump_at at;
    const char *taken; /* the moment in words; NULL = none yet */
    bool has_failed;   /* an allocation */
} bench_dump;

/* Reads "peak", "end" or "failure". */
bool bench_dump_parse(const char *text, bench_dump_at *out);

/* Start recording, with room for all events. */
bool bench_dump_start(bench_dump *dump, pleat instance, uint64_t n_events, bench_failure *failure);
/* A moment has come. Write the snapshot if the moment is the wanted one. `moment` is not
 * NATURAL. */
bool bench_dump_take(bench_dump *dump, pleat instance, bench_dump_at moment,
                     bench_failure *failure);

#endif
