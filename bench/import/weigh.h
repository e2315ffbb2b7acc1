/* weigh.h - which device of a snapshot is to be judged. */
#ifndef PLEAT_BENCH_WEIGH_H
#define PLEAT_BENCH_WEIGH_H

#include <stddef.h>

#include "bench/import/fold.h"

/* What a snapshot tells of one device, without a replay. */
typedef struct bench_weight {
    uint64_t device;
    uint64_t live_bytes;    /* at the snapshot; */
    uint64_t pending_bytes; /* of blocks that wait for other streams */
    uint64_t need_bytes;    /* most live bytes at once, blocks from before the history too */
    bool has_events;
    bool has_live;
    bool has_failed; /* its last request was refused */
} bench_weight;

/* The devices with events or live blocks, in their order; the first of them if there are more. */
enum { BENCH_MOST_WEIGHTS = 64 };

typedef struct bench_weights {
    bench_weight of[BENCH_MOST_WEIGHTS];
    unsigned n;
    size_t n_left; /* objects that may still be read: memo references may repeat one */
} bench_weights;

/* Weigh all devices, reading at most `n_most` blocks and events of these lists. What is malformed
 * counts for nothing: reading complains. */
void bench_weigh(const bench_pickle_node *segments, const bench_pickle_node *traces,
                 const bench_folds *folds, size_t n_most, bench_weights *out);
/* More than a process leaves that only looked at the device. An item that is no event counts, too:
 * reading complains of it. */
bool bench_weigh_has_events(const bench_pickle_value *trace, const bench_folds *folds);
/* A device whose last request was refused, or else any: the one that needs most; NULL = none. */
const bench_weight *bench_weights_heaviest(const bench_weights *weights);
/* All but `device` become the others of `out`. */
void bench_weights_others(const bench_weights *weights, uint64_t device, bench_devices *out);

#endif
