/* waiter.c - when a request may try again. See waiter.h. */
#include "segments/classic/waiter.h"

#include "vmm/base/deadline.h"

/* Busy threads free often, and few of their frees help. One more round after a free closes the
 * window described in waiter.h. Further rounds are a margin. */
enum { MOST_ROUNDS = 4096, MOST_ROUNDS_FOR_FREES = 8 };

void pl_waiter_init(pl_waiter *waiter, pl_lock *lock, const uint64_t *n_frees)
{
    *waiter = (pl_waiter){ .lock = lock, .n_frees = n_frees };
}

pl_turn pl_waiter_begin(const pl_waiter *waiter)
{
    pl_lock_assert(waiter->lock);
    pl_deadline_begin();
    return (pl_turn){ .seen = waiter->n_changes, .frees_seen = *waiter->n_frees };
}

static bool has_freed(const pl_waiter *waiter, const pl_turn *turn)
{
    return turn->n_rounds_for_frees < MOST_ROUNDS_FOR_FREES && *waiter->n_frees != turn->frees_seen;
}

bool pl_waiter_may_try(pl_waiter *waiter, pl_turn *turn, pleat_status st, bool may_fit)
{
    pl_lock_assert(waiter->lock);
    if (st != PLEAT_ENOMEM_DEVICE || ++turn->n_rounds == MOST_ROUNDS) {
        return false;
    }
    while (waiter->n_changes == turn->seen && !(may_fit && has_freed(waiter, turn)) &&
           waiter->n_out != 0) {
        pl_lock_wait(waiter->lock, &waiter->changed);
    }
    bool is_for_frees = waiter->n_changes == turn->seen && may_fit && has_freed(waiter, turn);
    turn->n_rounds_for_frees += is_for_frees;
    turn->frees_seen = *waiter->n_frees;
    return is_for_frees || waiter->n_changes != turn->seen;
}
