/* httomo_667.c - a pipeline whose methods take turns: an output splits a cached temporary.
 *
 * On a card of 8 GiB method A makes an output of 1 GiB with a temporary of 4 GiB. Method B makes an
 * output of 1 GiB. Then A runs again. 7 GiB are live at most.
 *
 *   A   |out A|  |###### temporary ######|     5 GiB are resident
 *   B   |out A|  |out B|                 |     cut from the cached temporary
 *   A   |out A|  |out B|out A|           |     and 4 GiB more: 9 GiB
 *
 * A cache of segments fails below 9 GiB (torch-native, tf-bfc, cuda-async; in the report CuPy's).
 * Allocators that move memory need 7 GiB (pleat, torch-expandable). So do allocators that never cut
 * blocks (mxnet-*, unpooled).
 *
 * Published: all sizes and the order. Source: github.com/DiamondLightSource/httomo/issues/667. */
#include <stdlib.h>

#include "bench/patterns/patterns.h"

enum { P_OUTPUT, P_TEMPORARY, P_HELD, MOST_HELD = 1000 };

static const bench_param params[] = {
    { .name = "output",
      .doc = "bytes of every method's output",
      .standard = 1.0 * (UINT64_C(1) << 30),
      .least = 1,
      .most = 1.0 * (UINT64_C(1) << 44),
      .is_whole = true },
    { .name = "temporary",
      .doc = "bytes of method A's temporary",
      .standard = 4.0 * (UINT64_C(1) << 30),
      .least = 1,
      .most = 1.0 * (UINT64_C(1) << 44),
      .is_whole = true },
    { .name = "held",
      .doc = "outputs that live at once",
      .standard = 3,
      .least = 1,
      .most = MOST_HELD,
      .is_whole = true },
    { .name = NULL },
};

typedef struct pipeline {
    uint64_t output_bytes;
    uint64_t temporary_bytes;
    uint64_t n_held;
    uint32_t outputs[MOST_HELD]; /* by iteration modulo n_held */
} pipeline;

static void *create(const bench_values *values, bench_failure *failure)
{
    pipeline *p = malloc(sizeof *p);
    if (!p) {
        bench_fail(failure, "out of host memory");
        return NULL;
    }
    p->output_bytes = (uint64_t)values->of[P_OUTPUT];
    p->temporary_bytes = (uint64_t)values->of[P_TEMPORARY];
    p->n_held = (uint64_t)values->of[P_HELD];
    return p;
}

/* An iteration is one method: A, B, A... */
static bool write(void *state, uint64_t number, bench_tape *tape)
{
    pipeline *p = state;
    uint32_t *output = &p->outputs[number % p->n_held];
    if (number >= p->n_held && !bench_tape_free(tape, *output)) {
        return false;
    }
    if (!bench_tape_alloc(tape, p->output_bytes, 0, output)) {
        return false;
    }
    uint32_t temporary;
    return number % 2 == 1 || (bench_tape_alloc(tape, p->temporary_bytes, 0, &temporary) &&
                               bench_tape_free(tape, temporary));
}

const bench_generator bench_httomo_667 = {
    .name = "httomo#667",
    .doc = "a pipeline whose outputs split the cached temporary of another method",
    .params = params,
    .iterations = 3,
    .create = create,
    .destroy = free,
    .write = write,
};
