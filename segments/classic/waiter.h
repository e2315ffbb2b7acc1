/* waiter.h - a request that found no memory waits for what other threads change, and tries again.
 *
 * A driver call that may make room drops the allocator's lock. It is under way from pl_waiter_leave
 * to pl_waiter_return, and its return is a change. A request that found no memory tries again if
 * other threads have changed something since its last try, and waits while their calls are under
 * way.
 *
 * A block that another thread frees during a round is a change as well: it may have entered the
 * cache after the request gave the cache back, and before the request asked the driver again. Frees
 * cause a few rounds only. Otherwise a request that cannot be served would empty the cache once for
 * each free of another thread.
 *
 * wait_ms does not bound these waits. They are for driver calls of other threads, and in the
 * originals threads wait for each other's lock; and "out of memory" would be wrong while memory is
 * on its way.
 *
 * Guarded by the lock of the allocator (rank 20), which only pl_waiter_may_try drops. */
#ifndef PLEAT_SEGMENTS_CLASSIC_WAITER_H
#define PLEAT_SEGMENTS_CLASSIC_WAITER_H

#include "vmm/base/lock.h"
#include "vmm/base/pleat_types.h"

typedef struct pl_waiter {
    pl_lock *lock;           /* const */
    pl_cond changed;         /* broadcast when n_changes changes */
    unsigned n_out;          /* lock: driver calls under way that may make room */
    uint64_t n_changes;      /* lock: such calls that have returned */
    const uint64_t *n_frees; /* const; what it points at, lock: blocks freed by users */
} pl_waiter;

/* What one request has seen of changes by other threads. */
typedef struct pl_turn {
    uint64_t seen;       /* n_changes at the last try, plus this request's own changes since */
    uint64_t frees_seen; /* *n_frees when the round began */
    unsigned n_rounds;
    unsigned n_rounds_for_frees; /* rounds that only frees were the reason for */
} pl_turn;

void pl_waiter_init(pl_waiter *waiter, pl_lock *lock, const uint64_t *n_frees);

pl_turn pl_waiter_begin(const pl_waiter *waiter); /* begin the first round of a request */

/* A try begins: it sees what other threads have changed so far. */
static inline void pl_waiter_see(const pl_waiter *waiter, pl_turn *turn)
{
    turn->seen = waiter->n_changes;
}

static inline void pl_waiter_leave(pl_waiter *waiter)
{
    waiter->n_out++;
}

/* `turn`: the caller's own, which does not count this change as another thread's. NULL: the caller
 * has none, or begins a new try next. */
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

/* A round of the request ended with `st`: is another one worth while? Waits until other threads
 * have changed something since. False unless `st` is ENOMEM_DEVICE, and also when none of their
 * calls is under way, or after too many rounds. Frees are changes only if `may_fit`: the request
 * would fit if everything that is not live were given back. */
bool pl_waiter_may_try(pl_waiter *waiter, pl_turn *turn, pleat_status st, bool may_fit);

#endif
