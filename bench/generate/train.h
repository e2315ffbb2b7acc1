/* train.h - trains a decoder: forward, loss and backward over micro-batches, checkpoints, shards,
 * the optimizer's step. Used by `decoder`, `moe` and `rlhf`. */
#ifndef PLEAT_BENCH_TRAIN_H
#define PLEAT_BENCH_TRAIN_H

#include "bench/generate/decoder.h"
#include "bench/generate/lengths.h"
#include "bench/generate/optimizer.h"
#include "bench/generate/shards.h"

typedef struct train_plan {
    bench_lengths lengths;
    uint32_t batch;
    uint32_t n_micro;  /* micro-batches per step */
    uint32_t n_shards; /* 1 = not sharded */
    uint32_t n_ahead;  /* layers gathered ahead of use */
    bool checkpoints;
    bool clips;
    optimizer_kind optimizer;
} train_plan;

typedef struct train {
    decoder d;
    train_plan plan;
    optimizer optimizer;
    shards shards;
    bench_random random;
} train;

bool train_init(train *t, const decoder_shape *shape, const train_plan *plan, uint64_t seed,
                bench_failure *failure);
void train_fini(train *t);
/* Makes the parameters, at the first step. `t` owns the hooks and must not move from here on. */
void train_make(train *t);
/* Runs the layers of one forward pass, checkpointed and gathered as planned. Consumes x. */
eager_value train_layers(train *t, eager_value x);
/* A micro-batch of `length`: forward, loss, backward. */
void train_micro(train *t, uint32_t length);
/* Runs all micro-batches and the optimizer's step. */
void train_step(train *t);

#endif
