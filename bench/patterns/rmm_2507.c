/* rmm_2507.c - 65,536 free holes held apart by live blocks, and then 1 KiB again and again.
 *
 *   |##|  |##|  |##|  |##|  |##|  ...        each hole takes the request
 *
 * The pattern is about time. With a list of free blocks an allocation looks at all of them (154 us
 * with 65,536 holes). With an index an allocation looks at a few (1.5 us; the driver's pool 2.2
 * us). `pleat bench resident` measures the cost of a pair. This pattern is the same situation as a
 * run, for comparisons of allocators. A cache that rounds every request up to a page of 4 KiB
 * (mxnet-*) needs four times the peak. All others need the peak.
 *
 * Published: the number of holes, the size of the request and the times. Inferred: holes and the
 * live blocks between them have equal sizes. Source: github.com/rapidsai/rmm/pull/2507. */
#include <stdlib.h>

#include "bench/patterns/patterns.h"

enum { P_HOLES, P_HOLE, P_BYTES, P_PAIRS };

static const bench_param params[] = {
    { .name = "holes",
      .doc = "how many",
      .standard = 65536,
      .least = 1,
      .most = 1 << 22,
      .is_whole = true },
    { .name = "hole",
      .doc = "bytes of each, and of the blocks between them",
      .standard = 1024,
      .least = 1,
      .most = 1 << 30,
      .is_whole = true },
    { .name = "bytes",
      .doc = "bytes of a request",
      .standard = 1024,
      .least = 1,
      .most = 1 << 30,
      .is_whole = true },
    { .name = "pairs",
      .doc = "allocations and frees in an iteration",
      .standard = 1000,
      .least = 1,
      .most = 1000000,
      .is_whole = true },
    { .name = NULL },
};

typedef struct holes {
    size_t n_holes;
    uint64_t hole_bytes;
    uint64_t bytes;
    size_t n_pairs;
    uint32_t blocks[]; /* hole, wall, hole, wall... */
} holes;

static void *create(const bench_values *values, bench_failure *failure)
{
    size_t n_holes = (size_t)values->of[P_HOLES];
    holes *h = malloc(sizeof *h + 2 * n_holes * sizeof h->blocks[0]);
    if (!h) {
        bench_fail(failure, "out of host memory");
        return NULL;
    }
    h->n_holes = n_holes;
    h->hole_bytes = (uint64_t)values->of[P_HOLE];
    h->bytes = (uint64_t)values->of[P_BYTES];
    h->n_pairs = (size_t)values->of[P_PAIRS];
    return h;
}

static bool make_holes(holes *h, bench_tape *tape)
{
    for (size_t i = 0; i < 2 * h->n_holes; i++) {
        if (!bench_tape_alloc(tape, h->hole_bytes, 0, &h->blocks[i])) {
            return false;
        }
    }
    for (size_t i = 0; i < 2 * h->n_holes; i += 2) {
        if (!bench_tape_free(tape, h->blocks[i])) {
            return false;
        }
    }
    return true;
}

static bool write(void *state, uint64_t number, bench_tape *tape)
{
    holes *h = state;
    if (number == 0 && !make_holes(h, tape)) {
        return false;
    }
    for (size_t i = 0; i < h->n_pairs; i++) {
        uint32_t slot;
        if (!bench_tape_alloc(tape, h->bytes, 0, &slot) || !bench_tape_free(tape, slot)) {
            return false;
        }
    }
    return true;
}

const bench_generator bench_rmm_2507 = {
    .name = "rmm#2507",
    .doc = "65,536 free holes held apart by live blocks, then 1 KiB again and again",
    .params = params,
    .iterations = 100,
    .create = create,
    .destroy = free,
    .write = write,
};
