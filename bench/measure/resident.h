/* resident.h - measures a free and an allocation in memory that is already resident.
 *
 * Blocks are allocated, and every second one, by address, is freed again. This gives N + N/8 gaps
 * held apart by as many walls. N/8 movable blocks then live in the gaps and leave about N free
 * blocks. A pair frees a movable block, drawn at random, and allocates a size drawn from the same
 * mix. The walls never move. So the number of free blocks stays about the same for any number of
 * pairs, and every allocator gets the same requests.
 *
 *   | gap | wall | gap | wall | gap | wall | ...            | spare: 64 of the largest |
 *   |xx   |######|     |######|xxxxx|######|    x = movable, # = wall
 *
 * Sizes are typical of deep learning. In units of 512 bytes: 60 % from 1 to 64, 30 % from 64 to
 * 4,160, 10 % from 4,096 to 69,632, uniform in each range. The spare makes sure that the largest
 * request always finds room. The measured part makes no driver call, which is checked. */
#ifndef PLEAT_BENCH_RESIDENT_H
#define PLEAT_BENCH_RESIDENT_H

#include "bench/base/random.h"
#include "bench/run/setup.h"

enum { BENCH_RESIDENT_ROUNDS = 20, BENCH_RESIDENT_MOST_BLOCKS = 1 << 20 };

typedef struct bench_resident_options {
    const bench_setup *setup;
    const char *allocator;
    unsigned n_blocks; /* gaps */
    unsigned n_pairs;  /* of each round */
    unsigned n_rounds;
    uint64_t seed;
} bench_resident_options;

typedef struct bench_resident_result {
    double ns_per_pair;    /* of the fastest round */
    uint64_t n_free_start; /* free blocks between live ones, before and after */
    uint64_t n_free_end;
    uint64_t n_live;
    uint64_t live_bytes_start;
    uint64_t live_bytes_end;
    uint64_t n_driver_calls; /* during the rounds */
} bench_resident_result;

/* False and a message when a request failed. */
bool bench_resident(const bench_resident_options *options, bench_resident_result *out,
                    bench_failure *failure);

/* A size of the mix. */
uint64_t bench_resident_draw_bytes(bench_random *random);

/* The function with only the measured pairs. Callgrind counts this function. */
#define BENCH_RESIDENT_SYMBOL "bench_resident_pairs"

/* A free and an allocation. */
typedef struct bench_pair {
    uint64_t bytes;
    uint32_t index; /* of the movable block */
} bench_pair;

pleat_status bench_resident_pairs(pleat instance, pleat_devptr *blocks, const bench_pair *pairs,
                                  unsigned n_pairs);

#endif
