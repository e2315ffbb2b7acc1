/* shards.h - parameters sharded over n ranks. A communication stream gathers a layer's parameters
 * just before the layer runs. The layer's gradients are reduced and scattered right after its
 * backward pass.
 *
 * Memory of the communication stream is freed late: only after the framework has seen the end of
 * its work, some blocks after the drop. */
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
    eager_value *masters; /* by layer: the rank's part in 4 bytes, for the optimizer */
    struct shards_late {
        eager_value value;
        uint64_t due; /* as a number of events on the tape */
    } late[16];
    uint32_t n_late;
} shards;

bool shards_init(shards *s, decoder *d, uint32_t n, uint32_t n_ahead, bench_random *random,
                 bench_failure *failure);
void shards_fini(shards *s);
/* Cut the decoder's layers. Each rank keeps a part, and the layers' own parameters are dropped. */
void shards_make(shards *s);
/* Before layer i runs: gather layer i and the next `n_ahead` in direction `step`. */
void shards_gather(shards *s, uint32_t i, int step);
void shards_release(shards *s, uint32_t i);
/* After layer i's gradients are complete. */
void shards_reduce(shards *s, uint32_t i);
/* Drop blocks that are due; at the end of a step all blocks. */
void shards_poll(shards *s, bool all);

#endif
