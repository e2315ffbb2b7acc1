/* segments_replay.h - compares an allocator's state by its events with its state by a visit.
 *
 * A replay is an observer that starts empty and follows the events. For a comparison replay_compare
 * visits the allocator, and compares both at one instant. Three things must be equal: the resident
 * runs, the live blocks, and the blocks with an uncompleted free. The first error, in an event or
 * in a comparison, is kept in `why`. After the error nothing is checked.
 *
 * Guarded by the allocator's lock, under which events come and comparisons run. */
#ifndef PLEAT_TESTS_SEGMENTS_REPLAY_H
#define PLEAT_TESTS_SEGMENTS_REPLAY_H

#include "segments/base/allocator.h"

enum { REPLAY_MOST = 4096 };

/* Resident memory: a whole segment, or a run of mapped addresses. */
typedef struct replay_range {
    pleat_devptr base;
    uint64_t bytes;
    pl_stream *stream;
    bool is_whole;
} replay_range;

typedef struct replay_block {
    pleat_devptr base;
    uint64_t bytes; /* as requested */
    pl_stream *stream;
    const void *private_in; /* the pool of a live block */
    bool is_live;           /* false: free requested, but not completed */
} replay_block;

/* Ranges and blocks in the order of addresses. */
typedef struct replay_state {
    replay_range ranges[REPLAY_MOST];
    replay_block blocks[REPLAY_MOST];
    size_t n_ranges;
    size_t n_blocks;
} replay_state;

typedef struct replay {
    pl_observer observer; /* first member */
    replay_state told;
    uint64_t n_events[PL_N_ACTIONS];
    uint64_t n_private; /* blocks allocated from private pools */
    uint64_t n_compared;
    char why[256]; /* empty = all is well */
} replay;

void replay_init(replay *r); /* the observer is on */
/* The private pool is gone. Its blocks now belong to no pool. */
void replay_release(replay *r, const pl_keeper *pool);
/* `is_alone`: no second thread is at work. Then even a visit without pieces can be compared. */
void replay_compare(replay *r, pl_allocator *a, bool is_alone);
/* Fail the test if anything was wrong. */
void replay_assert_good(const replay *r, const char *name);

#endif
