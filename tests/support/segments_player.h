/* segments_player.h - plays calls on an allocator over the simulator, beside the naive model.
 *
 * Each block is written on its stream when it is made and read there before it is freed, so the
 * simulator sees every hazard. pleat's refusals are judged by the promise of segments/pleat/grow.c:
 * the model tries every place, and the same call is made again. The first error is kept in `why`
 * and everything after it is skipped; player_assert_good fails the test with it.
 *
 * With threads the gate guards the model, and a refusal is judged alone: the refused thread waits
 * until no other call is under way, and calls again. */
#ifndef PLEAT_TESTS_SEGMENTS_PLAYER_H
#define PLEAT_TESTS_SEGMENTS_PLAYER_H

#include "segments/base/allocator.h"
#include "tests/support/segments_gate.h"
#include "tests/support/segments_model.h"
#include "tests/support/vmm_sim.h"

enum { PLAYER_STREAMS = 4, PLAYER_EVERY = 256, PLAYER_SHELVES = 64 };

/* How a refusal is treated: judged by the model, or always a failure. */
typedef enum player_refusal { PLAYER_JUDGES, PLAYER_FORBIDS } player_refusal;

typedef struct player_conf {
    uint64_t capacity_bytes; /* the device's */
    uint64_t other_bytes;    /* the part that someone else holds */
    size_t granule_bytes;    /* bytes of a chunk */
    unsigned chunk_granules; /* driver granules of a chunk; 0 = 1 */
    uint64_t address_bytes;  /* the most address space; 0 = any */
    unsigned depth;
    unsigned n_streams;
    pl_allocator_options options;
    size_t n_ids;     /* block ids are below this */
    bool has_threads; /* calls come from several threads */
    player_refusal refusal;
} player_conf;

/* One block, live or not. */
typedef struct player_block {
    pleat_devptr ptr; /* 0 = not live */
    size_t bytes;
    unsigned stream;
    unsigned last; /* the last stream that used it */
    bool is_used;  /* another stream has used it, too */
} player_block;

typedef struct player_counts {
    uint64_t n_ops, n_refused, n_pending, n_stale, n_without_addresses; /* gate */
} player_counts;

typedef struct player {
    player_conf conf;
    vmm_sim sim;
    pl_device *dev;
    pl_allocator *a;
    pleat_devptr other; /* memory that someone else holds */
    pl_stream *streams[PLAYER_STREAMS];
    void *handles[PLAYER_STREAMS];
    player_block *blocks;                 /* by id; each is used by one thread at a time */
    player_block shelves[PLAYER_SHELVES]; /* gate: blocks that one thread leaves to another */
    unsigned captured;                    /* the captured stream; 0 = none */
    model model;                          /* gate */
    uint64_t limit_bytes;                 /* gate; 0 = none */
    player_gate gate;
    player_counts counts;
    char why[512]; /* gate; empty = all is well */
} player;

void player_open(player *p, const pl_allocator_ops *ops, const player_conf *conf);
/* Destroy the allocator, live blocks included; the simulator must be empty and have no hazard. */
void player_close(player *p);
/* Fail the test if anything went wrong; `what` and `seed` identify it. */
void player_assert_good(player *p, const char *what, uint64_t seed);
bool player_is_good(player *p);

/* Allocate block `id`. Returns whether it is live now. */
bool play_alloc(player *p, size_t id, size_t bytes, unsigned stream);
/* Free block `id` on its own stream; does nothing if it is not live. */
void play_free(player *p, size_t id);
/* The same on another stream that has used it. */
void play_free_on(player *p, size_t id, unsigned stream);
/* Use the block on another stream, ordered behind its last use: record_stream. */
void play_use(player *p, size_t id, unsigned stream);
/* Leave block `id` on a shelf, and free the block that another call has left there. */
void play_pass_on(player *p, size_t id, size_t shelf);
/* Begin and end a capture of a stream other than 0. Its graph is dropped at once, and memory that
 * the capture saw is kept until it is released. For one thread. During a capture "pending" is an
 * allowed answer, and calls that would order streams do nothing. */
void play_begin_capture(player *p, unsigned stream, bool is_relaxed);
void play_end_capture(player *p);
void play_release_capture(player *p, unsigned stream);
/* Finish all work submitted so far. */
void play_finish(player *p);
void play_trim(player *p, uint64_t keep_bytes, bool wait);
/* Set the limit; a refusal is judged. */
void play_limit(player *p, uint64_t bytes);
/* Someone else gives back its memory: C rises. */
void play_release_other(player *p);
/* Run all walkers, check hazards and the figures that the model knows. Call it alone. */
void play_check(player *p);

/* C: the granules that device and limit allow. */
size_t player_most_granules(const player *p);

#endif
