/* origin.c - a file's facts beyond its events. */
#include "bench/work/origin.h"

#include <stdlib.h>

void bench_origin_fini(bench_origin *origin)
{
    for (uint32_t i = 0; i < origin->n_stacks; i++) {
        free(origin->stacks[i]);
    }
    free(origin->stacks);
    free(origin->stack_of);
    free(origin->state.pieces);
    *origin = (bench_origin){ .n_stacks = 0 };
}
