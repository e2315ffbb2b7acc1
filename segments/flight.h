/* flight.h - a request that grows: what it has reserved, the driver calls, commit or rollback.
 *
 * Phase one, under the lock: the place is cut out of holes and free blocks, chunks are collected
 * (idle ones, ones to create, ones taken from under free blocks): all of it in state FLIGHT, in no
 * index, all or nothing. Phase two, without the lock: create, map. Phase three, under the lock:
 * commit, which cannot fail, or put everything back. A taken chunk is mapped at its new place while
 * its old mapping still stands, so giving it back is only a matter of bookkeeping. */
#ifndef PLEAT_SEGMENTS_FLIGHT_H
#define PLEAT_SEGMENTS_FLIGHT_H

#include "segments/place.h"

typedef struct pl_flight {
    pl_lane *lane;
    uint32_t usable; /* lane whose pending memory it may use */
    size_t bytes;
    pl_place place;
    size_t n_extra;  /* granules mapped beyond the place, for the next requests */
    pl_block *first; /* the place's blocks, neighbours, state FLIGHT */
    pl_block *last;
    pl_block *spare;  /* kept for commit */
    pl_chunk *chunks; /* need of them: idle and taken ones, then created ones */
    size_t need;      /* n_new + n_extra */
    size_t n_have;    /* idle and taken */
    size_t n_idle;    /* of these, idle */
    size_t n_create;  /* to be created */
    size_t n_created;
    pl_block_queue victims; /* blocks whose chunks are taken, state FLIGHT */
    size_t n_runs_taken;
    bool is_quiet; /* no chunk in it was under pending memory */
    pl_flying flying;
} pl_flight;

/* Cut the place out. Needs the lane, bytes, place and n_extra. PLEAT_OK or ENOMEM_HOST (nothing
 * has changed). */
pleat_status pl_flight_reserve(pl_space *space, pl_flight *f);
static inline size_t pl_flight_missing(const pl_flight *f)
{
    return f->need - f->n_have - f->n_create;
}
void pl_flight_add_idle(pl_space *space, pl_flight *f);
void pl_flight_add_created(pl_space *space, pl_flight *f, size_t most);
/* Take chunks under free blocks that the lane may use, lowest address first, at most n_runs runs.
 * PLEAT_OK (also when too few were found) or ENOMEM_HOST. */
pleat_status pl_flight_add_taken(pl_space *space, pl_flight *f, size_t n_runs);

/* Without the lock: create and map. On failure nothing is mapped, but for blocks whose unmapping
 * failed too: the rollback poisons those. */
pleat_status pl_flight_fly(pl_space *space, pl_flight *f);
/* The live block, not yet in the map of live blocks. */
pl_block *pl_flight_commit(pl_space *space, pl_flight *f);
void pl_flight_rollback(pl_space *space, pl_flight *f);

/* b, whole granules in no queue, is not resident any more: a hole. */
void pl_flight_make_hole(pl_space *space, pl_block *b);
/* Cut [base, end) out of b, free or a hole, into a block in state FLIGHT. Needs two spares. */
pl_block *pl_flight_carve(pl_space *space, pl_block *b, pleat_devptr base, pleat_devptr end);
/* Undo it. In a private pool b is whole granules, all of them loose before. */
void pl_flight_restore(pl_space *space, pl_block *b);

#endif
