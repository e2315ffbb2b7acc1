/* waiter.c - another try after others have changed something. See waiter.h. */
#include "segments/classic/waiter.h"

enum { MOST_ROUNDS = 4096 };

int pl_waiter_init(pl_waiter *waiter, pl_lock *lock)
{
    *waiter = (pl_waiter){ .lock = lock };
    return pthread_cond_init(&waiter->changed, NULL) == 0 ? 0 : -1;
}

void pl_waiter_fini(pl_waiter *waiter)
{
    (void)pthread_cond_destroy(&waiter->changed);
}

static uint64_t frees(const pl_waiter *waiter)
{
    return waiter->n_frees ? *waiter->n_frees : 0;
}

pl_turn pl_waiter_begin(const pl_waiter *waiter)
{
    pl_lock_assert(waiter->lock);
    return (pl_turn){ .seen = waiter->n_changes, .frees_seen = frees(waiter) };
}

static bool has_changed(const pl_waiter *waiter, const pl_turn *turn)
{
    return waiter->n_changes != turn->seen || frees(waiter) != turn->frees_seen;
}

bool pl_waiter_may_try(pl_waiter *waiter, pl_turn *turn, pleat_status st)
{
    pl_lock_assert(waiter->lock);
    if (st != PLEAT_ENOMEM_DEVICE || ++turn->n_rounds == MOST_ROUNDS) {
        return false;
    }
    while (!has_changed(waiter, turn) && waiter->n_out != 0) {
        pl_lock_wait(waiter->lock, &waiter->changed);
    }
    bool is_worth = has_changed(waiter, turn);
    turn->frees_seen = frees(waiter);
    return is_worth;
}
