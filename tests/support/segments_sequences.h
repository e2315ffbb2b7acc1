/* segments_sequences.h - random and adversarial sequences of calls, made from a seed.
 *
 * Sizes are drawn relative to the granule and to `live_bytes`, what a sequence aims to keep live. A
 * refused block counts as live for the sequence, so that with less memory the same calls are made;
 * only those that look at addresses differ. */
#ifndef PLEAT_TESTS_SEGMENTS_SEQUENCES_H
#define PLEAT_TESTS_SEGMENTS_SEQUENCES_H

#include "tests/support/segments_player.h"
#include "tests/support/segments_random.h"

enum { SEQUENCE_IDS = 4096 };

typedef struct sequence_shape {
    uint64_t live_bytes;
    size_t n_ops;
    size_t first_id; /* of SEQUENCE_IDS that are its own */
    bool may_change_limit;
} sequence_shape;

typedef struct sequence {
    const char *name;
    void (*play)(player *p, random_source *r, const sequence_shape *shape);
} sequence;

/* Calls of all kinds at random, in phases of one size mix and order of freeing each. */
void sequence_churn(player *p, random_source *r, const sequence_shape *shape);
/* Training steps: blocks that stay, blocks freed in reverse, workspaces; shapes vary. */
void sequence_train(player *p, random_source *r, const sequence_shape *shape);
/* Robson's program: block sizes double, and what is freed leaves every gap too short. */
void sequence_robson(player *p, random_source *r, const sequence_shape *shape);
/* A quantum stays live in every granule, or in some; then large blocks are asked for. */
void sequence_pin(player *p, random_source *r, const sequence_shape *shape);
/* All memory passes from stream to stream, as huge blocks and as small ones. */
void sequence_tide(player *p, random_source *r, const sequence_shape *shape);
/* Whole granules only. */
void sequence_whole(player *p, random_source *r, const sequence_shape *shape);

extern const sequence sequences[]; /* those where a refusal may be right */
extern const unsigned n_sequences;

#endif
