/* streams.h - numbers the streams of a run in the order of their first use. A file may name a
 * stream by anything, such as a handle. */
#ifndef PLEAT_BENCH_STREAMS_H
#define PLEAT_BENCH_STREAMS_H

#include "bench/work/tape.h"

typedef struct bench_streams {
    uint64_t ids[BENCH_MOST_STREAMS];
    uint32_t n;
    uint32_t last; /* the last found stream, often the next one, too */
} bench_streams;

/* The number of the stream called `id`. False: too many streams. */
static inline bool bench_streams_find(bench_streams *streams, uint64_t id, uint32_t *out)
{
    uint32_t i = streams->last;
    if (i >= streams->n || streams->ids[i] != id) {
        for (i = 0; i < streams->n && streams->ids[i] != id; i++) {
        }
    }
    if (i == BENCH_MOST_STREAMS) {
        return false;
    }
    streams->ids[i] = id;
    streams->n += i == streams->n;
    streams->last = *out = i;
    return true;
}

#endif
