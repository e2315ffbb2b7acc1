/* flight.h - a request that grows: reservation, driver calls, commit or rollback.
 *
 * Phase one, under the lock: the place is cut out of holes and free blocks. Chunks are collected:
 * idle chunks, chunks to create, and chunks taken from under free blocks. All or nothing;
 * everything is in state FLIGHT, in no index. Phase two, without the lock: create, map. Phase
 * three, under the lock: commit, which cannot fail, or put everything back. A taken chunk is mapped
 * at its new place while its old mapping still stands, so giving the chunk back is only
 * bookkeeping.
 *
 * A place may have very many blocks or granules. Work takes a step for each block, idle chunk or
 * taken run, and in phase two for each chunk. After some steps the lock is dropped (pl_pace). By
 * then memory in flight and its entries (`chunks`, `orders`, `parts`) are the flight's own. */
#ifndef PLEAT_SEGMENTS_FLIGHT_H
#define PLEAT_SEGMENTS_FLIGHT_H

#include "segments/pleat/grow/place.h"

/* Chunks of this order and above may reach beyond the request, filled up with further growth.
 * Smaller chunks do not. */
enum { PL_LARGE_ORDER = 3 };

typedef struct pl_flight {
    pl_lane *lane;
    uint32_t usable; /* pending memory of this lane may be used */
    size_t bytes;
    pl_place place;
    size_t n_extra; /* granules mapped beyond the place, for the next requests */
    pl_pace *pace;
    pl_block *first; /* the place's blocks: neighbours, in state FLIGHT */
    pl_block *last;
    pl_block *spare;          /* kept for commit */
    size_t need;              /* granules of the place's holes, n_extra included */
    size_t n_under;           /* granules of the place without a byte in use */
    size_t n_have;            /* granules of `need` for idle and taken chunks, */
    size_t n_create;          /* and for chunks to create */
    size_t n_created;         /* granules of the chunks created so far */
    unsigned most_order;      /* the largest order of chunks to be created */
    unsigned page_order;      /* the largest order of chunks taken from buffers */
    bool has_too_large;       /* a larger chunk of a buffer was passed over */
    unsigned left_order;      /* least order of takeable chunks without room; 0: none */
    bool is_single;           /* chunks must have a single granule */
    unsigned least_order;     /* of idle and taken chunks */
    bool has_large;           /* some chunk has several granules */
    bool knows_room;          /* `room` was counted */
    size_t room[PL_N_ORDERS]; /* per order: chunks that the holes still have room for */
    pl_block_queue victims;   /* blocks with taken chunks, state FLIGHT */
    bool has_refused;         /* some of the place's blocks could not be unmapped: is_refused */
    size_t n_taken;           /* chunks of `victims` */
    bool is_quiet;            /* no chunk was under pending memory */
    pl_flying flying;
} pl_flight;

/* Cut the place out. Needs the lane, usable, bytes, place, n_extra and pace. PLEAT_OK; ENOMEM_HOST;
 * EPENDING (others took part of the place while the lock was dropped). A failure changes
 * nothing. */
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

/* Give a chunk of the order granules from *g on: the next granules of *hole, or of the first hole
 * behind *hole with room for the chunk. A hole of the place counts given granules in n_given.
 * Returns false if no hole has room. */
bool pl_flight_next_slot(const pl_flight *f, pl_block **hole, unsigned order, size_t *g);

/* flight_fly.c: create and map, dropping the lock. A failure leaves nothing mapped, except blocks
 * whose unmapping failed too: these are refused, and the rollback makes them stale. */
pleat_status pl_flight_fly(pl_space *space, pl_flight *f);
/* Returns the live block, not yet in the map of live blocks. */
pl_block *pl_flight_commit(pl_space *space, pl_flight *f);
void pl_flight_rollback(pl_space *space, pl_flight *f);

#endif
