/* waiter.h - requests that found no memory wait for what other threads do about it.
 *
 * A driver call that may make room drops the allocator's lock: between pl_waiter_leave and
 * pl_waiter_return it is under way, and its return is a change. Whoever finds no memory tries again
 * once there has been a change of others since its last try, and waits as long as one may come.
 *
 * What others free while a round is under way is a change as well: it may have been cached after
 * everything cached was given back, and before the driver was asked again. A few times only: a
 * request that cannot be served would else give everything back once for each free of others.
 *
 * wait_ms does not bound these waits: they are for driver calls of others, as the originals wait
 * for each other's lock, and to say "out of memory" beside memory that is coming would be wrong.
 *
 * Guarded by the lock of the allocator (rank 20), which only pl_waiter_may_try drops. */
#ifndef PLEAT_SEGMENTS_CLASSIC_WAITER_H
#define PLEAT_SEGMENTS_CLASSIC_WAITER_H

#include "vmm/base/lock.h"
#include "vmm/base/pleat_types.h"

typedef struct pl_waiter {
    pl_lock *lock;           /* const */
    pl_cond changed;         /* n_changes has changed */
    unsigned n_out;          /* lock: driver calls under way that may make room */
    uint64_t n_changes;      /* lock: how often one of them did */
    const uint64_t *n_frees; /* const: lock: how often users freed a block */
} pl_waiter;

/* What one request knows of the others. */
typedef struct pl_turn {
    uint64_t seen; /* n_changes as it would be now without those of others since the last try */
    uint64_t frees_seen; /* *n_frees when the round began: what came since may be what is missing */
    unsigned n_rounds;
    unsigned n_rounds_for_frees; /* rounds after which nothing else had changed */
} pl_turn;

void pl_waiter_init(pl_waiter *waiter, pl_lock *lock, const uint64_t *n_frees);

pl_turn pl_waiter_begin(const pl_waiter *waiter); /* the first round of a request */

/* A try begins: it sees what others have changed so far. */
static inline void pl_waiter_see(const pl_waiter *waiter, pl_turn *turn)
{
    turn->seen = waiter->n_changes;
}

static inline void pl_waiter_leave(pl_waiter *waiter)
{
    waiter->n_out++;
}

/* `turn` is the caller's, whose own change it is; NULL = it has none, or begins another try. */
static inline void pl_waiter_return(pl_waiter *waiter, pl_turn *turn)
{
    pl_lock_assert(waiter->lock);
    waiter->n_out--;
    waiter->n_changes++;
    pl_cond_broadcast(&waiter->changed);
    if (turn) {
        turn->seen++;
    }
}

/* The request's round ended with `st`. Is another one worth while? Waits until others have changed
 * something since; false as well when none of their calls is under way, or after too many rounds.
 * Frees count only if the request `may_fit`, were all given back that is not live. */
bool pl_waiter_may_try(pl_waiter *waiter, pl_turn *turn, pleat_status st, bool may_fit);

#endif
