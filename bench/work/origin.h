/* origin.h - a file's facts beyond its events: the recorded run, and the call stack of each
 * allocation.
 *
 * Only memory snapshots of PyTorch have such facts. For all other works everything here is
 * empty. */
#ifndef PLEAT_BENCH_ORIGIN_H
#define PLEAT_BENCH_ORIGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/work/told.h"

enum { BENCH_CONF_BYTES = 4096, BENCH_MOST_OTHERS = 16 };

/* The devices of a snapshot that have events or live blocks. */
typedef struct bench_devices {
    int judged;
    bool is_asked;   /* for the judged one, by name */
    bool has_failed; /* the last request on the judged one was refused */
    unsigned n_others;
    int others[BENCH_MOST_OTHERS];       /* the first of them, in their order; */
    uint64_t needs[BENCH_MOST_OTHERS];   /* their most live bytes at once, as far as known */
    bool have_failed[BENCH_MOST_OTHERS]; /* their last request was refused */
} bench_devices;

/* The kinds of pieces, in the order of pl_piece_kind. */
typedef enum bench_state_kind {
    BENCH_STATE_LIVE,
    BENCH_STATE_PENDING,
    BENCH_STATE_FREE
} bench_state_kind;

/* A block at the moment of the snapshot. */
typedef struct bench_state_piece {
    uint64_t base;
    uint64_t bytes;
    uint64_t asked_bytes; /* of what is live; else 0 */
    uint64_t stream;      /* the segment's: a handle */
    uint32_t stack;       /* 1 + index; 0 = none */
    uint8_t kind;         /* a bench_state_kind */
    bool is_first;        /* of a segment */
    bool is_small;        /* the segment is for small requests only */
    bool is_expandable;   /* the segment is a row of mapped pages */
} bench_state_piece;

/* What the recorded run held when the snapshot was taken; empty if the file does not tell. */
typedef struct bench_state {
    bench_state_piece *pieces; /* segment by segment */
    size_t n_pieces;
} bench_state;

typedef struct bench_origin {
    bool is_pytorch; /* from a snapshot of PyTorch */
    bool is_rmm;     /* from a log of RMM */
    bool has_failed; /* an allocation of the run was refused */
    bench_told told; /* how much of the run is recorded */
    bench_devices devices;
    uint64_t held_bytes;         /* most bytes held from the driver by the run; 0 = not known */
    char allocator[32];          /* the run's allocator, by pleat's names; "" = not known */
    char conf[BENCH_CONF_BYTES]; /* the run's PYTORCH_CUDA_ALLOC_CONF, or "" */
    char **stacks;               /* clean texts, a line a frame, the innermost first */
    uint32_t n_stacks;
    uint32_t *stack_of; /* by event number: 1 + index of the allocation's stack; 0 = none */
    size_t n_stack_of;
    bench_state state;
} bench_origin;

void bench_origin_fini(bench_origin *origin);

/* The index of the stack of event `event`, an allocation; -1 = none. */
static inline int64_t bench_origin_stack(const bench_origin *origin, uint64_t event)
{
    return event < origin->n_stack_of ? (int64_t)origin->stack_of[event] - 1 : -1;
}

#endif
