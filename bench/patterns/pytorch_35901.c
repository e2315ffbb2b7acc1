/* pytorch_35901.c - a huge block comes back after its place was cut into small blocks.
 *
 * Each training step makes a block of 10.84 GiB on a card of 23.65 GiB and frees it. Then hundreds
 * of small blocks come. Half a GiB of the first step's small blocks stays. The next step wants the
 * huge block again.
 *
 *   step 1   |################ huge ################|
 *   then     |#|  |#|  |#|  |#|  |#|  |#|            |   the segment cannot be given back
 *   step 2   needs a second segment of that size
 *
 * A cache of segments cuts the small blocks from the cached segment, and then needs a second
 * segment. So torch-native and cuda-async need 1.91 times the peak. The regions of tf-bfc double,
 * so its need is 2.37. Allocators that move memory need no second segment: pleat 1.01,
 * torch-expandable (with pages of 20 MiB) 1.06. Allocators that never cut blocks give the huge
 * segment back instead. mxnet-round pays only for its rounding, 1.03.
 *
 * Published, from a dump of the huge segment: the huge size, the small sizes, and which small
 * blocks stay in it. Inferred: the number of small blocks, and which of them stay. Source:
 * github.com/pytorch/pytorch/issues/35901. */
#include <stdlib.h>

#include "bench/patterns/patterns.h"

enum { P_HUGE, P_SMALL, P_KEEP };

static const bench_param params[] = {
    { .name = "huge",
      .doc = "bytes of the huge block",
      .standard = 11643387904.0,
      .least = 1,
      .most = 1.0 * (UINT64_C(1) << 44),
      .is_whole = true },
    { .name = "small",
      .doc = "how many small blocks a step makes",
      .standard = 500,
      .least = 1,
      .most = 1000000,
      .is_whole = true },
    { .name = "keep",
      .doc = "of how many small blocks of the first step one stays",
      .standard = 16,
      .least = 1,
      .most = 1000000,
      .is_whole = true },
    { .name = NULL },
};

typedef struct steps {
    uint64_t huge_bytes;
    size_t n_small;
    size_t keep;
    uint32_t slots[]; /* of the small blocks */
} steps;

static void *create(const bench_values *values, bench_failure *failure)
{
    size_t n_small = (size_t)values->of[P_SMALL];
    steps *s = malloc(sizeof *s + n_small * sizeof s->slots[0]);
    if (!s) {
        bench_fail(failure, "out of host memory");
        return NULL;
    }
    s->huge_bytes = (uint64_t)values->of[P_HUGE];
    s->n_small = n_small;
    s->keep = (size_t)values->of[P_KEEP];
    return s;
}

static bool write(void *state, uint64_t number, bench_tape *tape)
{
    static const uint64_t sizes[] = { 16515072, 16515072, 11400192, 18191360, 18191360 };
    steps *s = state;
    uint32_t huge;
    if (!bench_tape_alloc(tape, s->huge_bytes, 0, &huge) || !bench_tape_free(tape, huge)) {
        return false;
    }
    for (size_t i = 0; i < s->n_small; i++) {
        uint64_t bytes = sizes[i % (sizeof sizes / sizeof sizes[0])];
        if (!bench_tape_alloc(tape, bytes, 0, &s->slots[i])) {
            return false;
        }
    }
    for (size_t i = 0; i < s->n_small; i++) {
        bool stays = number == 0 && i % s->keep == 0;
        if (!stays && !bench_tape_free(tape, s->slots[i])) {
            return false;
        }
    }
    return true;
}

const bench_generator bench_pytorch_35901 = {
    .name = "pytorch#35901",
    .doc = "a huge block comes back after small ones were cut from its place",
    .params = params,
    .iterations = 3,
    .create = create,
    .destroy = free,
    .write = write,
};
