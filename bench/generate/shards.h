/* shards.h - parameters sharded over n ranks. A communication stream gathers a layer's parameters
 * just before the layer runs. The layer's gradients are reduced and scattered right after its
 * backward pass.
 *
 * The framework frees memory of the communication stream only after it has seen the end of the work
 * on that memory: some blocks after dropping the memory. */
#ifndef PLEAT_BENCH_SHARDS_H
#define PLEAT_BENCH_SHARDS_H

#include "bench/generate/decoder.h"

enum { SHARDS_STREAM = 1 };

typedef struct shards {
    decoder *d;
    bench_random *random;
    uint32_t n; /* ranks; 1 = no sharding */
    uint32_t n_ahead;
    uint64_t layer_bytes; /* all parameters of a layer */
    uint64_t shard_bytes; /* of one rank's part, in the gathered type */
    eager_value *whole;   /* by layer; empty = not gathered */
    eager_value *masters; /* by layer: this rank's part in 4 bytes, for the optimizer */
    struct shards_late {
        eager_value value;
        uint64_t due; /* as a number of events on the tape */
    } late[16];
    uint32_t n_late;
} shards;

bool shards_init(shards *s, decoder *d, uint32_t n, uint32_t n_ahead, bench_random *random,
                 bench_failure *failure);
void shards_fini(shards *s);
/* Cut the decoder's layers. Each rank keeps its part, and the layers' own parameters are
 * dropped. */
void shards_make(shards *s);
/* Before layer i runs: gather it and the next `n_ahead` in direction `step`. */
void shards_gather(shards *s, uint32_t i, int step);
void shards_release(shards *s, uint32_t i);
/* After layer i's gradients are complete. */
void shards_reduce(shards *s, uint32_t i);
/* Drop blocks that are due; at the end of a step all. */
void shards_poll(shards *s, bool all);

#endif
