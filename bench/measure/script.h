/* script.h - the steps of `pleat bench tail`: calls of an allocator, and the work around them.
 *
 * A script is a list of steps over numbered blocks and streams, the same for every allocator. A
 * script is made from a work's events, or from a pattern. In a pattern, a single call has to deal
 * with many blocks, pieces, granules, uses or streams. */
#ifndef PLEAT_BENCH_TAIL_SCRIPT_H
#define PLEAT_BENCH_TAIL_SCRIPT_H

#include <stddef.h>
#include <stdint.h>

#include "bench/base/failure.h"
#include "bench/base/text.h"

typedef enum bench_step_kind {
    BENCH_STEP_ALLOC,
    BENCH_STEP_FREE,
    BENCH_STEP_USE, /* record that `stream` uses the block */
    BENCH_STEP_STATISTICS,
    BENCH_STEP_RELEASE, /* the private pool's last user */
    BENCH_N_MEASURED,
    BENCH_STEP_WORK = BENCH_N_MEASURED, /* on the GPU: `stream` writes the block */
    BENCH_STEP_FINISH,                  /* wait for all work */
    BENCH_STEP_POOL_BEGIN,
    BENCH_STEP_POOL_END,
} bench_step_kind;

typedef struct bench_step {
    uint64_t bytes; /* of an allocation */
    uint32_t block;
    uint32_t stream;
    bench_step_kind kind;
} bench_step;

typedef struct bench_script {
    char name[BENCH_NAME_BYTES];
    bench_step *steps;
    size_t n_steps;
    size_t capacity;
    uint32_t n_blocks;
    uint32_t n_streams;
    uint64_t memory_bytes; /* of the device; 0 = unlimited */
    unsigned depth;        /* 0 = as in the setup */
    bool is_short;         /* host memory did not suffice for a step */
} bench_script;

enum { BENCH_TAIL_LEAST_BLOCKS = 64, BENCH_TAIL_MOST_BLOCKS = 1 << 21 };

/* The n-th pattern's name; NULL at the end. Each pattern is described in docs/benchmarks.md. */
const char *bench_script_pattern(unsigned index);

/* Open the pattern named `spec` with about `n_blocks` blocks, or else the work named `spec`. False
 * and a message when the work does not exist, or host memory is missing. */
bool bench_script_open(const char *spec, unsigned n_blocks, bench_script *out,
                       bench_failure *failure);
void bench_script_close(bench_script *script); /* a zeroed one is fine */

#endif
