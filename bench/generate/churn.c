/* churn.c - iterations of a given number of allocations of mixed sizes: the plainest long run.
 *
 * Some of each iteration's blocks live on for a few iterations. The others are freed in reverse
 * order, like activations in a backward pass. */
#include <stdlib.h>

#include "bench/base/random.h"
#include "bench/generate/generators.h"

enum { P_ALLOCATIONS, P_LEAST, P_MOST, P_KEEP, P_STAY, P_STREAMS };

static const bench_param params[] = {
    { .name = "allocations",
      .doc = "an iteration",
      .standard = 100,
      .least = 1,
      .most = 1000000,
      .is_whole = true },
    { .name = "least",
      .doc = "bytes of the smallest",
      .standard = 512,
      .least = 1,
      .most = 1 << 30,
      .is_whole = true },
    { .name = "most",
      .doc = "bytes of the largest",
      .standard = 64 << 20,
      .least = 1,
      .most = 1.0 * (UINT64_C(1) << 40),
      .is_whole = true },
    { .name = "keep",
      .doc = "part of the blocks that outlive their iteration",
      .standard = 0.05,
      .least = 0,
      .most = 1 },
    { .name = "stay",
      .doc = "iterations that these live on",
      .standard = 8,
      .least = 1,
      .most = 1000,
      .is_whole = true },
    { .name = "streams",
      .doc = "streams that iterations alternate between",
      .standard = 1,
      .least = 1,
      .most = BENCH_MOST_STREAMS,
      .is_whole = true },
    { .name = NULL },
};

typedef struct churn {
    bench_values values;
    bench_random random;
    size_t n_allocations;
    unsigned n_stay;
    uint32_t *slots; /* of the current iteration */
    uint32_t *kept;  /* of the last n_stay iterations, n_allocations places each */
    size_t *n_kept;  /* by iteration modulo n_stay */
} churn;

static void destroy(void *state)
{
    churn *c = state;
    free(c->slots);
    free(c->kept);
    free(c->n_kept);
    free(c);
}

static void *create(const bench_values *values, bench_failure *failure)
{
    if (values->of[P_LEAST] > values->of[P_MOST]) {
        bench_fail(failure, "churn: least is more than most");
        return NULL;
    }
    churn *c = calloc(1, sizeof *c);
    if (!c) {
        bench_fail(failure, "out of host memory");
        return NULL;
    }
    c->values = *values;
    c->random.state = values->seed;
    c->n_allocations = (size_t)values->of[P_ALLOCATIONS];
    c->n_stay = (unsigned)values->of[P_STAY];
    c->slots = calloc(c->n_allocations, sizeof *c->slots);
    c->kept = calloc(c->n_allocations * c->n_stay, sizeof *c->kept);
    c->n_kept = calloc(c->n_stay, sizeof *c->n_kept);
    if (!c->slots || !c->kept || !c->n_kept) {
        bench_fail(failure, "out of host memory");
        destroy(c);
        return NULL;
    }
    return c;
}

/* Sizes are spread evenly over the powers of two between the bounds, and evenly within each. */
static uint64_t draw_bytes(churn *c)
{
    uint64_t least = (uint64_t)c->values.of[P_LEAST];
    uint64_t most = (uint64_t)c->values.of[P_MOST];
    unsigned n_doublings = 0;
    while (least << (n_doublings + 1) <= most) {
        n_doublings++;
    }
    uint64_t low = least << bench_random_between(&c->random, 0, n_doublings);
    uint64_t high = 2 * low - 1 < most ? 2 * low - 1 : most;
    return bench_random_between(&c->random, low, high);
}

static bool is_kept(churn *c)
{
    return (double)(bench_random_next(&c->random) >> 11) * 0x1p-53 < c->values.of[P_KEEP];
}

static bool write(void *state, uint64_t number, bench_tape *tape)
{
    churn *c = state;
    uint32_t stream = (uint32_t)(number % (uint64_t)c->values.of[P_STREAMS]);
    size_t row = (size_t)(number % c->n_stay);
    uint32_t *kept = c->kept + row * c->n_allocations;
    for (size_t i = 0; i < c->n_kept[row]; i++) {
        if (!bench_tape_free(tape, kept[i])) {
            return false;
        }
    }
    c->n_kept[row] = 0;
    for (size_t i = 0; i < c->n_allocations; i++) {
        if (!bench_tape_alloc(tape, draw_bytes(c), stream, &c->slots[i])) {
            return false;
        }
    }
    for (size_t i = c->n_allocations; i-- > 0;) {
        if (is_kept(c)) {
            kept[c->n_kept[row]++] = c->slots[i];
        } else if (!bench_tape_free(tape, c->slots[i])) {
            return false;
        }
    }
    return true;
}

const bench_generator bench_churn = {
    .name = "churn",
    .doc = "iterations of mixed sizes, some blocks living on for a few iterations",
    .params = params,
    .iterations = 1000,
    .create = create,
    .destroy = destroy,
    .write = write,
};
