/* segments_draw.h - draws from a seed the device, options and shape of a random sequence. */
#ifndef PLEAT_TESTS_SEGMENTS_DRAW_H
#define PLEAT_TESTS_SEGMENTS_DRAW_H

#include "tests/support/segments/segments_sequences.h"

typedef struct drawn {
    player_conf conf;
    sequence_shape shape;
    unsigned per_mille; /* memory over the peak of live bytes, if it is scarce */
    bool is_limit;      /* the limit is scarce, not the device */
} drawn;

drawn draw(random_source *r, size_t n_ops);
/* Gives far more memory than the sequence aims to keep live. */
void draw_ample(drawn *d);
/* Give 1.0 to 1.1 times the peak, to the byte, by the device's size or by the limit. With the
 * device's size, a foreign holder sometimes takes a part of the device. */
void draw_scarce(drawn *d, random_source *r, uint64_t peak_bytes);

/* Lets chunks have several granules. The model knows nothing of them and judges no refusal. */
void draw_mixed(drawn *d, random_source *r);

/* The seeds to play: 1 to suite_part(n), or PLEAT_MODEL_SEED alone. */
typedef struct draw_seeds {
    uint64_t next;
    uint64_t last;
} draw_seeds;

draw_seeds draw_seeds_of(uint64_t n);
bool draw_next_seed(draw_seeds *seeds, uint64_t *seed);

/* Totals over many players. */
typedef struct totals {
    player_counts counts;
    unsigned n_seeds;
    uint64_t n_granules; /* created */
    uint64_t n_creates;  /* calls: at most one per creation, more only after failures */
} totals;

void totals_add(totals *t, const player *p);
void totals_say(const totals *t, const char *what);

#endif
