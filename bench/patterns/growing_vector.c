/* growing_vector.c - a vector that doubles: allocate twice the size, copy, free the old block.
 *
 * NVIDIA's article on low-level virtual memory management measures the growth of a vector from 2
 * MiB to three quarters of the free memory. The vector doubles each time, in two runs. A
 * malloc-like interface cannot add memory behind a block. So the old and the new block live at
 * once: 1.5 times the vector.
 *
 * On a device of 1.02 times the peak the first run leaves two segments, since its last step needed
 * everything else given back. The second run begins with these segments:
 *
 *   cached   |......... 4 GiB .........|  |..................... 8 GiB .....................|
 *   run 2    |2 4 8 ... 2048|          |  |######### 4096 #########|                        |
 *   then     8 GiB in one piece are wanted, 4 of the 8 there are live
 *
 * The peak suffices for pleat, torch-expandable and allocators that never cut (mxnet-*, unpooled).
 * For torch-native, tf-bfc and cuda-async the need is 1.33 times the peak. A single run fails in no
 * allocator: all segments except the old block's can be given back.
 *
 * Published: first size, doubling, the bound, two runs. Inferred: 16 GiB of free memory.
 * Source: developer.nvidia.com/blog/introducing-low-level-gpu-virtual-memory-management, and its
 * sample, github.com/NVIDIA-developer-blog/code-samples, posts/cuda-vmm. */
#include <math.h>
#include <stdlib.h>

#include "bench/patterns/patterns.h"

enum { P_FIRST, P_MEMORY, P_STAGGER };

static const bench_param params[] = {
    { .name = "first",
      .doc = "bytes that the vector begins with",
      .standard = 2 << 20,
      .least = 1,
      .most = 1.0 * (UINT64_C(1) << 40),
      .is_whole = true },
    { .name = "memory",
      .doc = "bytes of free memory; the vector grows to three quarters of it",
      .standard = 16.0 * (UINT64_C(1) << 30),
      .least = 4,
      .most = 1.0 * (UINT64_C(1) << 44),
      .is_whole = true },
    { .name = "stagger",
      .doc = "by how much of `first` each run begins higher, modulo 1",
      .standard = 0,
      .least = 0,
      .most = 1 },
    { .name = NULL },
};

typedef struct vector {
    uint64_t first_bytes;
    uint64_t most_bytes;
    double stagger;
} vector;

static void *create(const bench_values *values, bench_failure *failure)
{
    uint64_t first_bytes = (uint64_t)values->of[P_FIRST];
    uint64_t most_bytes = (uint64_t)values->of[P_MEMORY] / 4 * 3;
    if (2 * first_bytes > most_bytes) {
        bench_fail(failure, "growing-vector: first is more than three eighths of memory");
        return NULL;
    }
    vector *v = malloc(sizeof *v);
    if (!v) {
        bench_fail(failure, "out of host memory");
        return NULL;
    }
    *v = (vector){ .first_bytes = first_bytes,
                   .most_bytes = most_bytes,
                   .stagger = values->of[P_STAGGER] };
    return v;
}

/* An iteration is one run. */
static bool write(void *state, uint64_t number, bench_tape *tape)
{
    const vector *v = state;
    double part = fmod((double)number * v->stagger, 1.0);
    uint64_t bytes = v->first_bytes + (uint64_t)((double)v->first_bytes * part);
    uint32_t block;
    if (!bench_tape_alloc(tape, bytes, 0, &block)) {
        return false;
    }
    for (bytes *= 2; bytes <= v->most_bytes; bytes *= 2) {
        uint32_t old = block;
        if (!bench_tape_alloc(tape, bytes, 0, &block) || !bench_tape_free(tape, old)) {
            return false;
        }
    }
    return bench_tape_free(tape, block);
}

const bench_generator bench_growing_vector = {
    .name = "growing-vector",
    .doc = "a vector that doubles by allocating, copying and freeing, in two runs",
    .params = params,
    .iterations = 2,
    .create = create,
    .destroy = free,
    .write = write,
};
