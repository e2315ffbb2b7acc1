/* stacks.h - the call stacks of a snapshot, each once, as texts.
 *
 * A frame is the line "FILE:LINE FUNCTION"; the innermost comes first. Of a stack with frames of
 * Python only those are kept: they are what a user can change. */
#ifndef PLEAT_BENCH_STACKS_H
#define PLEAT_BENCH_STACKS_H

#include "bench/import/pickle.h"
#include "bench/work/ids.h"

typedef struct bench_stacks {
    char **texts;
    uint32_t n;
    uint32_t capacity;
    size_t n_bytes; /* of all texts */
    bench_host host;
    bench_ids by_frames; /* by the places of a stack's frames: frames are shared in a pickle */
    bench_ids by_text;
} bench_stacks;

/* False when out of host memory. Call bench_stacks_fini in either case. */
bool bench_stacks_init(bench_stacks *stacks);
/* Frees everything except the texts, if they were taken: then set `texts` to NULL before. */
void bench_stacks_fini(bench_stacks *stacks);

/* 1 + the index of the stack in that list of frames. 0: `frames` is NULL or tells nothing, or there
 * is no room for more texts (64 MiB). */
uint32_t bench_stacks_add(bench_stacks *stacks, const bench_pickle_value *frames);

#endif
