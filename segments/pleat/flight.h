/* flight.h - a request that grows: what it has reserved, the driver calls, commit or rollback.
 *
 * Phase one, under the lock: the place is cut out of holes and free blocks, chunks are collected
 * (idle ones, ones to create, ones taken from under free blocks): all of it in state FLIGHT, in no
 * index, all or nothing. Phase two, without the lock: create, map. Phase three, under the lock:
 * commit, which cannot fail, or put everything back. A taken chunk is mapped at its new place while
 * its old mapping still stands, so giving it back is only a matter of bookkeeping.
 *
 * A place may be of very many blocks, or granules. What is under the lock costs a step for a block,
 * or an idle chunk, never for a granule, and breathes after some steps (pl_pace): what the flight
 * has in its hands by then nobody else touches. What belongs to its granules alone, their chunks
 * and when those were taken, is written without the lock. */
#ifndef PLEAT_SEGMENTS_FLIGHT_H
#define PLEAT_SEGMENTS_FLIGHT_H

#include "segments/pleat/place.h"

typedef struct pl_flight {
    pl_lane *lane;
    uint32_t usable; /* lane whose pending memory it may use */
    size_t bytes;
    pl_place place;
    size_t n_extra; /* granules mapped beyond the place, for the next requests */
    pl_pace *pace;
    pl_block *first; /* the place's blocks, neighbours, state FLIGHT */
    pl_block *last;
    pl_block *spare;         /* kept for commit */
    size_t need;             /* granules of the place's holes, n_extra included */
    size_t n_pin;            /* granules that it has pinned */
    size_t n_have;           /* of these, those that idle and taken chunks are for */
    size_t n_create;         /* and those that chunks are to be created for, */
    size_t n_created;        /* and are */
    unsigned most_order;     /* of chunks to be created */
    bool has_large;          /* it has chunks of several granules */
    bool knows_room;         /* `room` was counted */
    size_t room[PL_N_ORDERS]; /* chunks of each order that its holes still have room for */
    pl_block_queue victims;  /* blocks whose chunks are taken, state FLIGHT */
    pl_block_queue poisoned; /* of the place, by address: whose unmapping failed */
    size_t n_runs_taken;
    uint32_t stamp;      /* of its start, see budget.h */
    size_t n_grown_back; /* granules of it that were taken not long ago */
    bool is_quiet;       /* no chunk in it was under pending memory */
    pl_flying flying;
} pl_flight;

/* Cut the place out. Needs the lane, bytes, place, n_extra and pace. PLEAT_OK; ENOMEM_HOST, or
 * EPENDING: others took some of it when it breathed (nothing has changed). */
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

/* The hole of the place, or the next behind it, that has room for a chunk of the order: its next
 * granules are the chunk's. The hole's `tick` counts those that have a chunk. False: none has. */
bool pl_flight_next_slot(const pl_flight *f, pl_block **hole, unsigned order, size_t *g);

/* flight_fly.c, without the lock: create and map. On failure nothing is mapped, except blocks
 * whose unmapping failed too: the rollback poisons those. */
pleat_status pl_flight_fly(pl_space *space, pl_flight *f);
/* The live block, not yet in the map of live blocks. */
pl_block *pl_flight_commit(pl_space *space, pl_flight *f);
void pl_flight_rollback(pl_space *space, pl_flight *f);

#endif
