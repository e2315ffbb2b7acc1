/* paddle_anchor_pins.c - a pool with a pin in every eighth place, and then a request of 7 GiB.
 *
 * On a card of 80 GB there is an anchor of 60 GiB. A pool of 12 GiB is given back and cut into
 * blocks of 20 MiB. Only every eighth block stays. Then 7 GiB are requested in one piece. 10.5 GiB
 * of the pool are free, but no piece is larger than 140 MiB.
 *
 *   |######## anchor ########|#|       |#|       |#|       |#|      ...  |   + 7 GiB
 *
 * torch-native, tf-bfc and cuda-async need 79 GiB, pleat and torch-expandable 72. Allocators that
 * never cut blocks make the small blocks anew and give the free ones back. But mxnet-round makes
 * blocks of 32 MiB and needs 79 GiB, too.
 *
 * Published: all sizes. Also the outcomes: the pattern passes with remapping and with PyTorch's
 * expandable segments, and fails without. The pattern is a probe from PaddlePaddle's work on its
 * second virtual-memory allocator. Inferred: the pool is one block before the cut. */
#include <stdlib.h>

#include "bench/patterns/patterns.h"

enum { P_ANCHOR, P_POOL, P_BLOCK, P_PIN, P_REQUEST };

static const bench_param params[] = {
    { .name = "anchor",
      .doc = "bytes that live all the time",
      .standard = 60.0 * (UINT64_C(1) << 30),
      .least = 1,
      .most = 1.0 * (UINT64_C(1) << 44),
      .is_whole = true },
    { .name = "pool",
      .doc = "bytes of the pool",
      .standard = 12.0 * (UINT64_C(1) << 30),
      .least = 1,
      .most = 1.0 * (UINT64_C(1) << 44),
      .is_whole = true },
    { .name = "block",
      .doc = "bytes of the blocks that the pool is cut into",
      .standard = 20 << 20,
      .least = 1,
      .most = 1.0 * (UINT64_C(1) << 44),
      .is_whole = true },
    { .name = "pin",
      .doc = "of how many blocks one stays",
      .standard = 8,
      .least = 1,
      .most = 1000000,
      .is_whole = true },
    { .name = "request",
      .doc = "bytes that are wanted then",
      .standard = 7.0 * (UINT64_C(1) << 30),
      .least = 1,
      .most = 1.0 * (UINT64_C(1) << 44),
      .is_whole = true },
    { .name = NULL },
};

enum { MOST_BLOCKS = 1 << 20 };

typedef struct probe {
    bench_values values;
    size_t n_blocks;
    uint32_t blocks[];
} probe;

static void *create(const bench_values *values, bench_failure *failure)
{
    double n_blocks = values->of[P_POOL] / values->of[P_BLOCK];
    if (!(n_blocks >= 1.0 && n_blocks <= MOST_BLOCKS)) {
        bench_fail(failure, "paddle-anchor-pins: pool is not 1 to %d times block", MOST_BLOCKS);
        return NULL;
    }
    probe *p = calloc(1, sizeof *p + (size_t)n_blocks * sizeof p->blocks[0]);
    if (!p) {
        bench_fail(failure, "out of host memory");
        return NULL;
    }
    p->values = *values;
    p->n_blocks = (size_t)n_blocks;
    return p;
}

static uint64_t size_of(const probe *p, unsigned param)
{
    return (uint64_t)p->values.of[param];
}

static bool pass_through(uint64_t bytes, bench_tape *tape)
{
    uint32_t slot;
    return bench_tape_alloc(tape, bytes, 0, &slot) && bench_tape_free(tape, slot);
}

static bool is_pin(const probe *p, size_t i)
{
    return i % (size_t)p->values.of[P_PIN] == 0;
}

static bool cut(probe *p, bench_tape *tape)
{
    for (size_t i = 0; i < p->n_blocks; i++) {
        if (!bench_tape_alloc(tape, size_of(p, P_BLOCK), 0, &p->blocks[i])) {
            return false;
        }
    }
    return true;
}

static bool free_blocks(const probe *p, bool pins, bench_tape *tape)
{
    for (size_t i = 0; i < p->n_blocks; i++) {
        if (is_pin(p, i) == pins && !bench_tape_free(tape, p->blocks[i])) {
            return false;
        }
    }
    return true;
}

/* An iteration is one probe; the anchor stays. */
static bool write(void *state, uint64_t number, bench_tape *tape)
{
    probe *p = state;
    uint32_t anchor;
    if (number == 0 && !bench_tape_alloc(tape, size_of(p, P_ANCHOR), 0, &anchor)) {
        return false;
    }
    return pass_through(size_of(p, P_POOL), tape) && cut(p, tape) && free_blocks(p, false, tape) &&
           pass_through(size_of(p, P_REQUEST), tape) && free_blocks(p, true, tape);
}

const bench_generator bench_paddle_anchor_pins = {
    .name = "paddle-anchor-pins",
    .doc = "a pool with a pin in every eighth place, and then a request of 7 GiB",
    .params = params,
    .iterations = 1,
    .create = create,
    .destroy = free,
    .write = write,
};
