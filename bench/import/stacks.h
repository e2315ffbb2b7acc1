/* stacks.h - the call stacks of a snapshot, each once, as texts.
 *
 * A frame is the line "FILE:LINE FUNCTION"; the innermost comes first. If a stack has Python
 * frames, only these are kept, since users can change them. */
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
/* Frees everything. If the caller has taken the texts, it must set `texts` to NULL before. */
void bench_stacks_fini(bench_stacks *stacks);

/* 1 + the index of the stack for these frames. 0: `frames` is NULL or empty, or the texts exceed
 * their room (64 MiB). */
uint32_t bench_stacks_add(bench_stacks *stacks, const bench_pickle_value *frames);

#endif
