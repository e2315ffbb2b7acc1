/* dump.h - one snapshot of a replay, in the form of PyTorch's: when it is taken, and where to. */
#ifndef PLEAT_BENCH_DUMP_H
#define PLEAT_BENCH_DUMP_H

#include "api/pleat.h"
#include "bench/base/failure.h"
#include "bench/work/work.h"

/* Moments of a replay; the last of them that comes is the one that is kept. */
typedef enum bench_dump_at {
    BENCH_DUMP_NATURAL, /* the first failed allocation, else the peak */
    BENCH_DUMP_PEAK,    /* live bytes are at their peak for the first time; the end if they never
                           are, since allocations failed */
    BENCH_DUMP_END,     /* behind the last event, before what lives is freed */
    BENCH_DUMP_FAILURE, /* the first failed allocation */
} bench_dump_at;

typedef struct bench_dump {
    const char *path;
    bench_dump_at at;
    const char *taken; /* the moment in words; NULL = none yet */
    bool has_failed;   /* an allocation */
} bench_dump;

/* "peak", "end", "failure". */
bool bench_dump_parse(const char *text, bench_dump_at *out);

/* Record from now on, enough for all events. */
bool bench_dump_start(bench_dump *dump, pleat instance, uint64_t n_events, bench_failure *failure);
/* That moment has come: write the snapshot if it is the one. `moment` is not NATURAL. */
bool bench_dump_take(bench_dump *dump, pleat instance, bench_dump_at moment,
                     bench_failure *failure);

#endif
