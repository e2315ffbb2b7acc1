/* cards.h - the sizes of GPUs that can be bought, and what of them is left for tensors. */
#ifndef PLEAT_BENCH_CARDS_H
#define PLEAT_BENCH_CARDS_H

#include <stdint.h>

enum { BENCH_N_CARDS = 7 };

typedef struct bench_card {
    const char *label;
    uint64_t bytes; /* for an allocator: see cards.c */
} bench_card;

extern const bench_card bench_cards[BENCH_N_CARDS]; /* by size */

#endif
