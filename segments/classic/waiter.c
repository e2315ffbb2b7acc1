/* waiter.c - another try after others have changed something. See waiter.h. */
#include "segments/classic/waiter.h"

enum { MOST_ROUNDS = 4096 };

int pl_waiter_init(pl_waiter *waiter, pl_lock *lock, const uint64_t *n_frees)
{
    *waiter = (pl_waiter){ .lock = lock, .n_frees = n_frees };
    return pthread_cond_init(&waiter->changed, NULL) == 0 ? 0 : -1;
}

void pl_waiter_fini(pl_waiter *waiter)
{
    (void)pthread_cond_destroy(&waiter->changed);
}

pl_turn pl_waiter_begin(const pl_waiter *waiter)
{
    pl_lock_assert(waiter->lock);
    return (pl_turn){ .seen = waiter->n_changes, .frees_seen = *waiter->n_frees };
}

static bool has_changed(const pl_waiter *waiter, const pl_turn *turn, bool may_fit)
{
    return waiter->n_changes != turn->seen || (may_fit && *waiter->n_frees != turn->frees_seen);
}

bool pl_waiter_may_try(pl_waiter *waiter, pl_turn *turn, pleat_status st, bool may_fit)
{
    pl_lock_assert(waiter->lock);
    if (st != PLEAT_ENOMEM_DEVICE || ++turn->n_rounds == MOST_ROUNDS) {
        return false;
    }
    while (!has_changed(waiter, turn, may_fit) && waiter->n_out != 0) {
        pl_lock_wait(waiter->lock, &waiter->changed);
    }
    bool is_worth = has_changed(waiter, turn, may_fit);
    turn->frees_seen = *waiter->n_frees;
    return is_worth;
}
