/* cards.h - the sizes of GPUs that can be bought, and what of them is left for tensors. */
#ifndef PLEAT_BENCH_CARDS_H
#define PLEAT_BENCH_CARDS_H

#include "bench/base/size.h"

enum { BENCH_N_CARDS = 11 };

typedef struct bench_card {
    const char *label;
    uint64_t bytes; /* for an allocator: see cards.c */
} bench_card;

extern const bench_card bench_cards[BENCH_N_CARDS]; /* by size */

/* --card: "24GB" or "24 gb" is what a card of that name leaves for an allocator. False: there is no
 * such card. */
bool bench_card_parse(const char *name, bench_memory *out);
/* Writes that, and the names that there are, for messages; returns `out`. */
const char *bench_card_refusal(const char *name, char *out, size_t n);

#endif
