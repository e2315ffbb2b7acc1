/* lock.c - mutexes with a rank.
 *
 * A debug build keeps, per thread, the ranks held in the order of acquisition. Each acquisition
 * must have a higher rank than the last, so no cycle of waiting threads can form. It also counts
 * what was touched in each hold of a device lock. A release build is only pthread's mutex, and
 * holds timed on demand. May call nothing except pthread, the clock and pl_assert. */
#include "vmm/base/lock.h"

#include <errno.h>
#include <stdatomic.h>

#include "vmm/base/cancel.h"
#include "vmm/base/clock.h"

/* ---- ranks, and what is touched -------------------------------------------------------------- */

static _Atomic size_t most_touched; /* atomic */

#if PLEAT_DEBUG_LEVEL >= 1

enum { MAX_HELD = 8 };

static _Thread_local pl_rank held[MAX_HELD];
static _Thread_local int n_held;
_Thread_local size_t pl_lock_n_touched;

static void note_touched(void)
{
    size_t most = atomic_load_explicit(&most_touched, memory_order_relaxed);
    while (pl_lock_n_touched > most &&
           !atomic_compare_exchange_weak(&most_touched, &most, pl_lock_n_touched)) {
    }
}

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
    if (lock->rank == PL_RANK_DEVICE) {
        pl_lock_n_touched = 0;
    }
}

/* Locks may be released in any order; the others keep their ranks. */
static void note_released(pl_lock *lock)
{
    pl_lock_assert(lock);
    if (lock->rank == PL_RANK_DEVICE) {
        note_touched();
    }
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

size_t pl_lock_touched(void)
{
    return pl_lock_n_touched;
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

size_t pl_lock_touched(void)
{
    return 0;
}

#endif

size_t pl_lock_most_touched(void)
{
    return atomic_load(&most_touched);
}

void pl_lock_reset_touched(void)
{
    atomic_store(&most_touched, 0);
}

/* ---- how long it is held --------------------------------------------------------------------- */

static _Atomic uint64_t longest_ns; /* atomic */

static void begin_hold(pl_lock *lock)
{
    if (lock->rank == PL_RANK_DEVICE) {
        lock->held_ns = pl_clock_ns();
    }
}

/* Returns whether the hold was timed. */
static bool end_hold(pl_lock *lock)
{
    if (lock->held_ns == 0) {
        return false;
    }
    uint64_t ns = pl_clock_ns() - lock->held_ns;
    uint64_t longest = atomic_load(&longest_ns);
    while (ns > longest && !atomic_compare_exchange_weak(&longest_ns, &longest, ns)) {
    }
    lock->held_ns = 0;
    return true;
}

static int lock_timed(pthread_mutex_t *mutex)
{
    int rc = pthread_mutex_lock(mutex);
    begin_hold((pl_lock *)mutex);
    return rc;
}

static int unlock_timed(pthread_mutex_t *mutex)
{
    (void)end_hold((pl_lock *)mutex);
    return pthread_mutex_unlock(mutex);
}

/* Called through pointers, as the dynamic linker would do it anyway, so no branch is paid for. */
typedef int (*mutex_call)(pthread_mutex_t *mutex);

static _Atomic mutex_call lock_mutex = pthread_mutex_lock;     /* atomic */
static _Atomic mutex_call unlock_mutex = pthread_mutex_unlock; /* atomic */

void pl_lock_time_holds(bool is_on)
{
    if (is_on) { /* stays for good: a hold may end after the timing, and must clear its start */
        atomic_store(&unlock_mutex, unlock_timed);
    }
    atomic_store(&lock_mutex, is_on ? lock_timed : pthread_mutex_lock);
    atomic_store(&longest_ns, 0);
}

uint64_t pl_lock_longest_ns(void)
{
    return atomic_exchange(&longest_ns, 0);
}

/* ---- the lock -------------------------------------------------------------------------------- */

int pl_lock_init(pl_lock *lock, pl_rank rank)
{
    lock->rank = rank;
    lock->is_held = 0;
    lock->held_ns = 0;
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
    int rc = atomic_load_explicit(&lock_mutex, memory_order_acquire)(&lock->mutex);
    pl_assert(rc == 0);
    (void)rc;
    note_acquired(lock);
}

void pl_lock_release(pl_lock *lock)
{
    note_released(lock);
    int rc = atomic_load_explicit(&unlock_mutex, memory_order_acquire)(&lock->mutex);
    pl_assert(rc == 0);
    (void)rc;
}

int pl_lock_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0) {
        return -1;
    }
    int rc = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    rc = rc == 0 ? pthread_cond_init(cond, &attributes) : rc;
    (void)pthread_condattr_destroy(&attributes);
    return rc == 0 ? 0 : -1;
}

/* `end`: by CLOCK_MONOTONIC; NULL = never. */
static void wait_until(pl_lock *lock, pthread_cond_t *cond, const struct timespec *end)
{
    note_released(lock);
    bool is_timed = end_hold(lock);
    int cancel = pl_cancel_off(); /* who is cancelled in a wait would die holding the lock */
    int rc = end ? pthread_cond_timedwait(cond, &lock->mutex, end)
                 : pthread_cond_wait(cond, &lock->mutex);
    pl_assert(rc == 0 || rc == ETIMEDOUT);
    (void)rc;
    pl_cancel_restore(cancel);
    if (is_timed) {
        begin_hold(lock);
    }
    note_before(lock);
    note_acquired(lock);
}

void pl_lock_wait(pl_lock *lock, pthread_cond_t *cond)
{
    wait_until(lock, cond, NULL);
}

void pl_lock_wait_for(pl_lock *lock, pthread_cond_t *cond, uint32_t ms)
{
    uint64_t ns = pl_clock_ns() + (uint64_t)ms * 1000000;
    struct timespec end = {
        .tv_sec = (time_t)(ns / 1000000000),
        .tv_nsec = (long)(ns % 1000000000),
    };
    wait_until(lock, cond, &end);
}
