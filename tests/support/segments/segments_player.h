/* segments_player.h - plays calls on an allocator over the simulator, beside the naive model.
 *
 * Each block is written on its stream at its birth and read there before its free. So the simulator
 * sees every hazard. Refusals of pleat are judged by the promise of segments/pleat/grow/grow.c. The
 * model tries every place, and then the same call is made again. The first error is kept in `why`,
 * and everything later is skipped. The test then fails in player_assert_good.
 *
 * With threads the gate guards the model, and a refusal is judged alone. The refused thread waits
 * until no other call is under way, and then calls again. */
#ifndef PLEAT_TESTS_SEGMENTS_PLAYER_H
#define PLEAT_TESTS_SEGMENTS_PLAYER_H

#include "segments/base/allocator.h"
#include "tests/support/segments/segments_gate.h"
#include "tests/support/segments/segments_model.h"
#include "tests/support/vmm/vmm_sim.h"

enum { PLAYER_STREAMS = 4, PLAYER_EVERY = 256, PLAYER_SHELVES = 64 };

/* How a refusal is treated: judged by the model, or always a failure. */
typedef enum player_refusal { PLAYER_JUDGES, PLAYER_FORBIDS } player_refusal;

typedef struct player_conf {
    uint64_t capacity_bytes; /* the device's */
    uint64_t other_bytes;    /* the part held by a foreign user */
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
    unsigned last; /* the stream of its last use */
    bool is_used;  /* a second stream has used the block */
} player_block;

typedef struct player_counts {
    uint64_t n_ops, n_refused, n_pending, n_stale, n_without_addresses; /* gate */
} player_counts;

typedef struct player {
    player_conf conf;
    vmm_sim sim;
    pl_device *dev;
    pl_allocator *a;
    pleat_devptr other; /* memory held by a foreign user */
    pl_stream *streams[PLAYER_STREAMS];
    void *handles[PLAYER_STREAMS];
    player_block *blocks;                 /* by id; a block is used by one thread at a time */
    player_block shelves[PLAYER_SHELVES]; /* gate: blocks passed from thread to thread */
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
/* Fail the test after any error; `what` and `seed` identify the run. */
void player_assert_good(player *p, const char *what, uint64_t seed);
bool player_is_good(player *p);

/* Allocate block `id`. Returns whether it is live now. */
bool play_alloc(player *p, size_t id, size_t bytes, unsigned stream);
/* Free block `id` on its own stream. Does nothing if the block is not live. */
void play_free(player *p, size_t id);
/* play_free on a different stream that has used the block. */
void play_free_on(player *p, size_t id, unsigned stream);
/* Use the block on another stream (record_stream), ordered behind the block's last use. */
void play_use(player *p, size_t id, unsigned stream);
/* Leave block `id` on a shelf, and free the block found there. */
void play_pass_on(player *p, size_t id, size_t shelf);
/* Begin and end a capture of a stream other than 0. The graph is dropped at once. Memory that the
 * capture saw is kept until the capture is released. For one thread. During a capture "pending" is
 * an allowed answer, and calls that would order streams do nothing. */
void play_begin_capture(player *p, unsigned stream, bool is_relaxed);
void play_end_capture(player *p);
void play_release_capture(player *p, unsigned stream);
/* Finish all work submitted so far. */
void play_finish(player *p);
void play_trim(player *p, uint64_t keep_bytes, bool wait);
/* Set the limit; a refusal is judged. */
void play_limit(player *p, uint64_t bytes);
/* The foreign user gives its memory back, so C rises. */
void play_release_other(player *p);
/* Run all walkers, check hazards and the figures that the model knows. No other call may be under
 * way. */
void play_check(player *p);

/* C: the granules allowed by device and limit. */
size_t player_most_granules(const player *p);

#endif
