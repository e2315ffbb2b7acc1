/* flight.h - a request that grows: what it has reserved, the driver calls, commit or rollback.
 *
 * Phase one, under the lock: the place is cut out of holes and free blocks, chunks are collected
 * (idle ones, ones to create, ones taken from under free blocks): all of it in state FLIGHT, in no
 * index, all or nothing. Phase two, without the lock: create, map. Phase three, under the lock:
 * commit, which cannot fail, or put everything back. A taken chunk is mapped at its new place while
 * its old mapping still stands, so giving it back is only a matter of bookkeeping.
 *
 * A place may have very many blocks, or granules. Work under the lock takes a step for each block,
 * idle chunk or run that is taken, not for each granule, and drops the lock after some steps
 * (pl_pace): nobody else touches what is in flight by then. The table entries of its granules
 * (`chunks`, `orders`, `parts`) are the flight's own: it writes them without the lock.
 */
#ifndef PLEAT_SEGMENTS_FLIGHT_H
#define PLEAT_SEGMENTS_FLIGHT_H

#include "segments/pleat/grow/place.h"

/* Chunks of this order and above are filled up with what grows beyond the request; smaller ones do
 * not reach beyond it. */
enum { PL_LARGE_ORDER = 3 };

typedef struct pl_flight {
    pl_lane *lane;
    uint32_t usable; /* the lane whose pending memory it may use */
    size_t bytes;
    pl_place place;
    size_t n_extra; /* granules mapped beyond the place, for the next requests */
    pl_pace *pace;
    pl_block *first; /* of the place's blocks, which are neighbours, state FLIGHT */
    pl_block *last;
    pl_block *spare;     /* kept for commit */
    size_t need;         /* granules of the place's holes, n_extra included */
    size_t n_under;      /* granules of the place that had bytes of free blocks only, or none */
    size_t n_have;       /* granules of `need` that idle and taken chunks will back, */
    size_t n_create;     /* and those that created chunks will */
    size_t n_created;    /* granules of the chunks created so far */
    unsigned most_order; /* the largest order of chunks to be created */
    unsigned left_order; /* the least of chunks that could be taken but find no room; 0: none */
    bool is_paged;       /* none of its chunks may have several granules */
    bool has_large;      /* some of its chunks have several granules */
    bool knows_room;     /* `room` was counted */
    size_t room[PL_N_ORDERS]; /* chunks of each order that its holes still have room for */
    pl_block_queue victims;   /* blocks whose chunks are taken, state FLIGHT */
    pl_block_queue poisoned;  /* blocks of the place, by address, whose unmapping failed */
    size_t n_taken;           /* chunks of `victims` */
    bool is_quiet;            /* none of its chunks was under pending memory */
    pl_flying flying;
} pl_flight;

/* Cut the place out. Needs the lane, usable, bytes, place, n_extra and pace. PLEAT_OK; ENOMEM_HOST;
 * EPENDING (others took some of the place while the lock was dropped). On failure nothing has
 * changed. */
pleat_status pl_flight_reserve(pl_space *space, pl_flight *f);
static inline size_t pl_flight_missing(const pl_flight *f)
{
    return f->need - f->n_have - f->n_create;
}
void pl_flight_add_idle(pl_space *space, pl_flight *f);
void pl_flight_add_created(pl_space *space, pl_flight *f, size_t most);
/* Take chunks under free blocks that the lane may use, lowest address first. PLEAT_OK (also when
 * too few were found) or ENOMEM_HOST. */
pleat_status pl_flight_add_taken(pl_space *space, pl_flight *f);

/* Give a chunk of the order the next granules of the hole, or of the first hole behind it that has
 * room for the chunk: from *g on. The holes of the place count in `tick` the granules given so.
 * Returns false if no hole has room. */
bool pl_flight_next_slot(const pl_flight *f, pl_block **hole, unsigned order, size_t *g);

/* flight_fly.c, without the lock: create and map. On failure nothing is mapped, except blocks
 * whose unmapping failed too: the rollback poisons those. */
pleat_status pl_flight_fly(pl_space *space, pl_flight *f);
/* Returns the live block, not yet in the map of live blocks. */
pl_block *pl_flight_commit(pl_space *space, pl_flight *f);
void pl_flight_rollback(pl_space *space, pl_flight *f);

#endif
