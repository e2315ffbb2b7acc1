/* waiter.h - a request that found no memory waits for changes by other threads, and tries again.
 *
 * A driver call that may make room drops the allocator's lock. The call is under way from
 * pl_waiter_leave to pl_waiter_return. Its return counts as a change. A request without memory
 * tries again if other threads have changed something since its last try. Otherwise it waits, as
 * long as calls of other threads are under way.
 *
 * A block freed by another thread during a round counts as a change as well. The block may have
 * entered the cache after the request emptied the cache, and before the request asked the driver
 * again. Frees cause a few rounds only. Otherwise an unservable request would empty the cache for
 * each free of another thread.
 *
 * wait_ms does not bound these waits. These waits are for other threads' driver calls. In the
 * original caches, threads wait for the lock at this point. "Out of memory" would be wrong while
 * memory is on its way.
 *
 * Guarded by the allocator's lock (rank 20), which only pl_waiter_may_try drops. */
#ifndef PLEAT_SEGMENTS_CLASSIC_WAITER_H
#define PLEAT_SEGMENTS_CLASSIC_WAITER_H

#include "vmm/base/lock.h"
#include "vmm/base/pleat_types.h"

typedef struct pl_waiter {
    pl_lock *lock;           /* const */
    pl_cond changed;         /* broadcast when n_changes changes */
    unsigned n_out;          /* lock: driver calls under way that may make room */
    uint64_t n_changes;      /* lock: driver calls returned so far */
    const uint64_t *n_frees; /* const pointer to a count under the lock: blocks freed by users */
} pl_waiter;

/* The changes by other threads that one request has seen. */
typedef struct pl_turn {
    uint64_t seen;       /* n_changes at the last try, plus this request's own changes since */
    uint64_t frees_seen; /* *n_frees when the round began */
    unsigned n_rounds;
    unsigned n_rounds_for_frees; /* rounds whose only reason was a free */
} pl_turn;

void pl_waiter_init(pl_waiter *waiter, pl_lock *lock, const uint64_t *n_frees);

pl_turn pl_waiter_begin(const pl_waiter *waiter); /* begin the first round of a request */

/* Begin a try: note the changes by other threads so far. */
static inline void pl_waiter_see(const pl_waiter *waiter, pl_turn *turn)
{
    turn->seen = waiter->n_changes;
}

static inline void pl_waiter_leave(pl_waiter *waiter)
{
    waiter->n_out++;
}

/* `turn` is the caller's own turn, which does not count this change as another thread's. NULL: the
 * caller has no turn, or begins a new try next. */
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

/* A round of the request ended with `st`: is another round worth while? Waits until other threads
 * have changed something since. False if `st` is not ENOMEM_DEVICE, if no call of another thread is
 * under way, or after too many rounds. Frees count as changes only if `may_fit`: the request would
 * fit if all memory except live blocks were given back. */
bool pl_waiter_may_try(pl_waiter *waiter, pl_turn *turn, pleat_status st, bool may_fit);

#endif
