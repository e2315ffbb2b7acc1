/* stacks.h - the call stacks of a snapshot, each once, as texts.
 *
 * A frame is the line "FILE:LINE FUNCTION"; the innermost comes first. If a stack has Python
 * frames, only these are kept, since users can change them. A frame is read once and then known by
 * its number. */
#ifndef PLEAT_BENCH_STACKS_H
#define PLEAT_BENCH_STACKS_H

#include "bench/pickle/pickle.h"
#include "bench/work/ids.h"

typedef struct bench_frame {
    char *text;
    bool is_python;
} bench_frame;

typedef struct bench_stacks {
    char **texts;
    uint32_t n;
    uint32_t capacity;
    bench_frame *frames;
    uint32_t n_frames;
    uint32_t frame_capacity;
    size_t n_bytes; /* of all texts */
    bench_host host;
    bench_ids by_frames; /* stacks by their frames' numbers */
    bench_ids by_text;   /* frames */
} bench_stacks;

/* False when out of host memory. Call bench_stacks_fini in either case. */
bool bench_stacks_init(bench_stacks *stacks);
/* Frees everything. If the caller has taken the texts, it must set `texts` to NULL before. */
void bench_stacks_fini(bench_stacks *stacks);

/* The number of a frame, a dictionary. 0: the texts exceed their room (64 MiB). */
uint32_t bench_stacks_frame(bench_stacks *stacks, const bench_pickle_value *frame);
/* 1 + the index of the stack with these frames, a list of runs of numbers. 0: it has none, or the
 * texts exceed their room. */
uint32_t bench_stacks_add(bench_stacks *stacks, const bench_pickle_node *frames);

#endif
