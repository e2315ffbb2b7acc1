/* cards.h - the sizes of GPUs that can be bought, and what of them is left for tensors. */
#ifndef PLEAT_BENCH_CARDS_H
#define PLEAT_BENCH_CARDS_H

#include "bench/base/size.h"

enum { BENCH_N_CARDS = 11 };

typedef struct bench_card {
    const char *label;
    uint64_t bytes;        /* for an allocator: see cards.c */
    const char *examples;  /* which have these */
    const char *larger;    /* others of this name have, for an allocator, */
    uint64_t larger_bytes; /* these; NULL, 0 = none */
} bench_card;

extern const bench_card bench_cards[BENCH_N_CARDS]; /* by size */

/* The card with this label and size; NULL = it is none. */
const bench_card *bench_card_of(const char *label, uint64_t bytes);

/* --card: "24GB" or "24 gb" is what a card of that name leaves for an allocator, "RTX 4090" what
 * that GPU leaves. False: there is no such card, or GPUs of the name have several sizes. */
bool bench_card_parse(const char *name, bench_memory *out);
/* Writes that, and the names that there are, for messages; returns `out`. */
const char *bench_card_refusal(const char *name, char *out, size_t n);

#endif
