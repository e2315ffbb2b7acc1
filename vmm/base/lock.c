/* lock.c - mutexes with a rank.
 *
 * A debug build keeps, per thread, the ranks held in the order of acquisition; each acquisition
 * must be of a higher rank than the last, so no cycle of waiting threads can form. A release build
 * is pthread's mutex and nothing else. May not call: anything but pthread and pl_assert. */
#include "vmm/base/lock.h"

#if PLEAT_DEBUG_LEVEL >= 1

enum { MAX_HELD = 8 };

static _Thread_local pl_rank held[MAX_HELD];
static _Thread_local int n_held;

static void note_before(const pl_lock *lock)
{
    pl_assert(n_held < MAX_HELD);
    pl_assert(n_held == 0 || held[n_held - 1] < lock->rank);
}

static void note_acquired(pl_lock *lock)
{
    lock->owner = pthread_self();
    lock->is_held = 1;
    held[n_held++] = lock->rank;
}

/* Locks may be released in any order; the others keep theirs. */
static void note_released(pl_lock *lock)
{
    pl_lock_assert(lock);
    int at = n_held - 1;
    while (at >= 0 && held[at] != lock->rank) {
        at--;
    }
    pl_assert(at >= 0);
    for (; at + 1 < n_held; at++) {
        held[at] = held[at + 1];
    }
    n_held--;
    lock->is_held = 0;
}

void pl_lock_assert(const pl_lock *lock)
{
    pl_assert(lock->is_held && pthread_equal(lock->owner, pthread_self()));
}

void pl_lock_assert_below(pl_rank rank)
{
    for (int i = 0; i < n_held; i++) {
        pl_assert(held[i] < rank);
    }
    (void)rank;
}

void pl_lock_assert_none(void)
{
    pl_assert(n_held == 0);
}

#else

static void note_before(const pl_lock *lock)
{
    (void)lock;
}

static void note_acquired(pl_lock *lock)
{
    (void)lock;
}

static void note_released(pl_lock *lock)
{
    (void)lock;
}

void pl_lock_assert(const pl_lock *lock)
{
    (void)lock;
}

void pl_lock_assert_below(pl_rank rank)
{
    (void)rank;
}

void pl_lock_assert_none(void)
{
}

#endif

int pl_lock_init(pl_lock *lock, pl_rank rank)
{
    lock->rank = rank;
    lock->is_held = 0;
    return pthread_mutex_init(&lock->mutex, NULL) == 0 ? 0 : -1;
}

void pl_lock_fini(pl_lock *lock)
{
    pl_assert(!lock->is_held);
    int rc = pthread_mutex_destroy(&lock->mutex);
    pl_assert(rc == 0);
    (void)rc;
}

void pl_lock_acquire(pl_lock *lock)
{
    note_before(lock);
    int rc = pthread_mutex_lock(&lock->mutex);
    pl_assert(rc == 0);
    (void)rc;
    note_acquired(lock);
}

void pl_lock_release(pl_lock *lock)
{
    note_released(lock);
    int rc = pthread_mutex_unlock(&lock->mutex);
    pl_assert(rc == 0);
    (void)rc;
}

void pl_lock_wait(pl_lock *lock, pthread_cond_t *cond)
{
    note_released(lock);
    int rc = pthread_cond_wait(cond, &lock->mutex);
    pl_assert(rc == 0);
    (void)rc;
    note_before(lock);
    note_acquired(lock);
}
