/* segments_player.h - plays calls on an allocator over the simulator, beside the naive model.
 *
 * Each block is written on its stream when it is made and read there before it is freed, so that
 * the simulator sees every hazard. A refusal of pleat's is judged by the promise of
 * segments/pleat/grow.c: the model tries every place and the same call is made again. Whatever is
 * wrong is kept in `why` (the first time) and everything after it is skipped; player_assert_good
 * fails the test with it.
 *
 * With threads the model is guarded by the gate, and a refusal is judged alone: whoever was refused
 * waits until no other call is under way, and calls again. */
#ifndef PLEAT_TESTS_SEGMENTS_PLAYER_H
#define PLEAT_TESTS_SEGMENTS_PLAYER_H

#include "segments/base/allocator.h"
#include "tests/support/segments_gate.h"
#include "tests/support/segments_model.h"
#include "tests/support/vmm_sim.h"

enum { PLAYER_STREAMS = 4, PLAYER_EVERY = 256, PLAYER_SHELVES = 64 };

/* What a refusal is: judged by the model; a failure, however well founded; or just counted. */
typedef enum player_refusal { PLAYER_JUDGES, PLAYER_FORBIDS, PLAYER_COUNTS } player_refusal;

typedef struct player_conf {
    uint64_t capacity_bytes; /* the device's */
    uint64_t other_bytes;    /* of these, held by someone else */
    size_t granule_bytes;    /* of a chunk */
    unsigned chunk_granules; /* the driver's; 0 = 1 */
    uint64_t address_bytes;  /* most address space; 0 = any */
    unsigned depth;
    unsigned n_streams;
    pl_allocator_options options;
    size_t n_ids;     /* blocks are known by numbers below this */
    bool has_threads; /* calls come from several */
    player_refusal refusal;
} player_conf;

/* One block, live or not. */
typedef struct player_block {
    pleat_devptr ptr; /* 0 = not live */
    size_t bytes;
    unsigned stream;
    unsigned last; /* the stream that used it last */
    bool is_used;  /* by another stream too */
} player_block;

typedef struct player_counts {
    uint64_t n_ops, n_refused, n_pending, n_stale, n_without_addresses; /* gate */
} player_counts;

typedef struct player {
    player_conf conf;
    vmm_sim sim;
    pl_device *dev;
    pl_allocator *a;
    pleat_devptr other; /* what someone else holds */
    pl_stream *streams[PLAYER_STREAMS];
    void *handles[PLAYER_STREAMS];
    player_block *blocks;                 /* by id; each is used by one thread at a time */
    player_block shelves[PLAYER_SHELVES]; /* gate: what one thread leaves for another to free */
    unsigned captured;                    /* the stream that is captured; 0 = none */
    model model;                          /* gate */
    uint64_t limit_bytes;                 /* gate; 0 = none */
    player_gate gate;
    player_counts counts;
    char why[512]; /* gate; empty = all is well */
} player;

void player_open(player *p, const pl_allocator_ops *ops, const player_conf *conf);
/* Destroy the allocator with what is live; the simulator must be empty, and hazards none. */
void player_close(player *p);
/* Fails the test if anything went wrong; `what` and `seed` say where. */
void player_assert_good(player *p, const char *what, uint64_t seed);
bool player_is_good(player *p);

/* Allocate block `id`. Returns whether it is live now. */
bool play_alloc(player *p, size_t id, size_t bytes, unsigned stream);
/* Free block `id`, on its own stream; nothing if it is not live. */
void play_free(player *p, size_t id);
/* The same on another stream, which has used it. */
void play_free_on(player *p, size_t id, unsigned stream);
/* Another stream uses it, ordered behind the use before: record_stream. */
void play_use(player *p, size_t id, unsigned stream);
/* Leave block `id` on a shelf and free, here and now, what another call has left there. */
void play_pass_on(player *p, size_t id, size_t shelf);
/* Capture a stream, not 0, and end that; its graph is forgotten at once, and what the capture has
 * seen is kept until it is released. For one thread; while a stream is captured "pending" is a fair
 * answer, and calls that would order streams do nothing. */
void play_begin_capture(player *p, unsigned stream, bool is_relaxed);
void play_end_capture(player *p);
void play_release_capture(player *p, unsigned stream);
/* All work submitted so far finishes. */
void play_finish(player *p);
void play_trim(player *p, uint64_t keep_bytes, bool wait);
/* Set the limit; a refusal is judged. */
void play_limit(player *p, uint64_t bytes);
/* Someone else gives back what it holds: C rises. */
void play_release_other(player *p);
/* All walkers, no hazard, and the figures that the model knows. Alone. */
void play_check(player *p);

/* C: granules that device and limit give. */
size_t player_most_granules(const player *p);

#endif
