/* loader.c - pinned memory of a data loader (DataLoader with pin_memory). Each iteration pins a
 * batch of tensors ahead of use, copies it to the device on a separate stream, and drops it.
 *
 *   iteration      k            k+1          k+2
 *   pinned         batch k+p    batch k+p+1  ...        p = prefetch
 *   dropped        batch k      batch k+1    ...        when its copy is submitted
 *
 * The blocks are pinned memory of the host. One tensor of 1.1 GiB a batch, as by default, is the
 * worst case of a cache that rounds up to powers of two. */
#include <stdlib.h>

#include "bench/base/random.h"
#include "bench/generate/generators.h"

enum { P_BYTES, P_SPREAD, P_TENSORS, P_PREFETCH, P_STREAMS };

#define STANDARD_BYTES 1181116006.0 /* 1.1 GiB */
#define MOST_TENSORS 1000
#define MOST_PREFETCH 1000

static const bench_param params[] = {
    { .name = "bytes",
      .doc = "of the largest tensor",
      .standard = STANDARD_BYTES,
      .least = 1,
      .most = 1.0 * (UINT64_C(1) << 40),
      .is_whole = true },
    { .name = "spread",
      .doc = "part by which the smallest is smaller",
      .standard = 0,
      .least = 0,
      .most = 1 },
    { .name = "tensors",
      .doc = "a batch",
      .standard = 1,
      .least = 1,
      .most = MOST_TENSORS,
      .is_whole = true },
    { .name = "prefetch",
      .doc = "batches pinned ahead",
      .standard = 2,
      .least = 1,
      .most = MOST_PREFETCH,
      .is_whole = true },
    { .name = "streams",
      .doc = "streams that batches are copied on in turn",
      .standard = 1,
      .least = 1,
      .most = BENCH_MOST_STREAMS,
      .is_whole = true },
    { .name = NULL },
};

typedef struct loader {
    bench_random random;
    uint64_t least_bytes;
    uint64_t most_bytes;
    size_t n_tensors;
    uint64_t n_prefetch;
    uint32_t n_streams;
    uint32_t *slots; /* of n_prefetch + 1 batches, by number modulo that */
    uint64_t n_pinned;
} loader;

static void destroy(void *state)
{
    loader *l = state;
    free(l->slots);
    free(l);
}

static void *create(const bench_values *values, bench_failure *failure)
{
    loader *l = calloc(1, sizeof *l);
    if (!l) {
        bench_fail(failure, "out of host memory");
        return NULL;
    }
    double most = values->of[P_BYTES];
    double least = most * (1.0 - values->of[P_SPREAD]);
    *l = (loader){
        .random = { values->seed },
        .least_bytes = least > 1.0 ? (uint64_t)least : 1,
        .most_bytes = (uint64_t)most,
        .n_tensors = (size_t)values->of[P_TENSORS],
        .n_prefetch = (uint64_t)values->of[P_PREFETCH],
        .n_streams = (uint32_t)values->of[P_STREAMS],
    };
    l->slots = calloc(l->n_tensors * (l->n_prefetch + 1), sizeof *l->slots);
    if (!l->slots) {
        bench_fail(failure, "out of host memory");
        destroy(l);
        return NULL;
    }
    return l;
}

static uint32_t *slots_of(const loader *l, uint64_t batch)
{
    return l->slots + batch % (l->n_prefetch + 1) * l->n_tensors;
}

static bool pin(loader *l, uint64_t batch, bench_tape *tape)
{
    uint32_t *slots = slots_of(l, batch);
    for (size_t i = 0; i < l->n_tensors; i++) {
        uint64_t bytes = bench_random_between(&l->random, l->least_bytes, l->most_bytes);
        if (!bench_tape_alloc(tape, bytes, (uint32_t)(batch % l->n_streams), &slots[i])) {
            return false;
        }
    }
    return true;
}

static bool drop(const loader *l, uint64_t batch, bench_tape *tape)
{
    const uint32_t *slots = slots_of(l, batch);
    bool ok = true;
    for (size_t i = 0; i < l->n_tensors && ok; i++) {
        ok = bench_tape_free(tape, slots[i]);
    }
    return ok;
}

static bool write(void *state, uint64_t number, bench_tape *tape)
{
    loader *l = state;
    while (l->n_pinned < number + l->n_prefetch) {
        if (!pin(l, l->n_pinned, tape)) {
            return false;
        }
        l->n_pinned++;
    }
    return drop(l, number, tape);
}

const bench_generator bench_loader = {
    .name = "loader",
    .doc = "pinned memory of a data loader, one large tensor a batch",
    .params = params,
    .iterations = 100,
    .is_host = true,
    .create = create,
    .destroy = destroy,
    .write = write,
};
