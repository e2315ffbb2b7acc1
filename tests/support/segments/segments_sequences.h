/* segments_sequences.h - random and adversarial sequences of calls, made from a seed.
 *
 * Sizes are drawn relative to the granule and to `live_bytes`, the bytes that a sequence aims to
 * keep live. A refused block counts as live for the sequence. So the sequence makes the same calls
 * with less memory, except for sequences that look at addresses. */
#ifndef PLEAT_TESTS_SEGMENTS_SEQUENCES_H
#define PLEAT_TESTS_SEGMENTS_SEQUENCES_H

#include "tests/support/segments/segments_player.h"
#include "tests/support/segments/segments_random.h"

enum { SEQUENCE_IDS = 4096 };

typedef struct sequence_shape {
    uint64_t live_bytes;
    size_t n_ops;
    size_t first_id; /* first of its SEQUENCE_IDS ids */
    bool may_change_limit;
} sequence_shape;

typedef struct sequence {
    const char *name;
    void (*play)(player *p, random_source *r, const sequence_shape *shape);
} sequence;

/* Random calls of all kinds, in phases. A phase has one size mix and one order of freeing. */
void sequence_churn(player *p, random_source *r, const sequence_shape *shape);
/* Training steps: lasting blocks, blocks freed in reverse, workspaces. Shapes vary. */
void sequence_train(player *p, random_source *r, const sequence_shape *shape);
/* Robson's program: block sizes double, and the freed blocks leave every gap too short. */
void sequence_robson(player *p, random_source *r, const sequence_shape *shape);
/* A quantum stays live in every granule, or in some; then large blocks are asked for. */
void sequence_pin(player *p, random_source *r, const sequence_shape *shape);
/* All memory passes from stream to stream, as huge blocks and as small ones. */
void sequence_tide(player *p, random_source *r, const sequence_shape *shape);
/* Whole granules only. */
void sequence_whole(player *p, random_source *r, const sequence_shape *shape);

extern const sequence sequences[]; /* sequences with rightful refusals */
extern const unsigned n_sequences;

#endif
