/* shards.h - parameters sharded over n ranks: a layer's are gathered on a communication stream just
 * before it runs, its gradients reduced and scattered right after its backward pass.
 *
 * The memory of the communication stream is given back when the work that used it is seen to be
 * done: some blocks later than the framework drops it. */
#ifndef PLEAT_BENCH_SHARDS_H
#define PLEAT_BENCH_SHARDS_H

#include "bench/generate/decoder.h"

enum { SHARDS_STREAM = 1 };

typedef struct shards {
    decoder *d;
    bench_random *random;
    uint32_t n; /* ranks; 1 = nothing is done */
    uint32_t n_ahead;
    uint64_t layer_bytes; /* of a layer's parameters, whole */
    uint64_t shard_bytes; /* of one rank's part, in the gathered type */
    eager_value *whole;   /* by layer; empty = not gathered */
    eager_value *masters; /* by layer: this rank's part in 4 bytes, the optimizer's parameter */
    struct shards_late {
        eager_value value;
        uint64_t due; /* in events of the tape */
    } late[16];
    uint32_t n_late;
} shards;

bool shards_init(shards *s, decoder *d, uint32_t n, uint32_t n_ahead, bench_random *random,
                 bench_failure *failure);
void shards_fini(shards *s);
/* Cut the decoder's layers: each rank keeps its part, the layers' own parameters go. */
void shards_make(shards *s);
/* Layer i is about to run: it and those `n_ahead` beyond in direction `step` are gathered. */
void shards_gather(shards *s, uint32_t i, int step);
void shards_release(shards *s, uint32_t i);
/* Layer i's gradients are complete. */
void shards_reduce(shards *s, uint32_t i);
/* Drop what is due; everything at the end of a step. */
void shards_poll(shards *s, bool all);

#endif
