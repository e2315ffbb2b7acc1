/* pools.h - what private pools of CUDA graphs add to a run's need.
 *
 * What a pool has taken stays with its graph, whose replays use it at the same addresses, and no
 * allocator may give it to others. The history does not tell the pools. The segments at the end do,
 * so a block lies in a pool if its address lies in a segment of the pool. */
#ifndef PLEAT_BENCH_POOLS_H
#define PLEAT_BENCH_POOLS_H

#include "bench/import/snapshot.h"

typedef struct bench_pools {
    uint64_t n;
    uint64_t held_bytes; /* of their segments at the end */
    uint64_t need_bytes; /* the most of: what lives outside, and what each pool had needed by then;
                          * 0 = no pools */
} bench_pools;

/* False without host memory. */
bool bench_pools_look(const bench_snapshot *snapshot, bench_pools *out);

#endif
