/* lock.h - mutexes with a rank. Debug builds (level >= 1) assert per thread that ranks strictly
 * increase, and that the caller of pl_lock_assert holds the lock. Debug builds also count the
 * things touched in one hold of a device lock, since the hold keeps every other thread off the
 * device. */
#ifndef PLEAT_BASE_LOCK_H
#define PLEAT_BASE_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vmm/base/assert.h"

/* In acquisition order. A thread that holds a rank may only take higher ranks. */
typedef enum pl_rank {
    PL_RANK_HELD = 5, /* api/share/held.h: a fork takes it before the api lock */
    PL_RANK_API = 10,
    PL_RANK_CLASSIC = 15, /* a classic cache on one device; held across driver calls */
    PL_RANK_DEVICE = 20,  /* pleat's state on one device; never held across driver calls */
    PL_RANK_VMM = 40,
    PL_RANK_HISTORY = 80, /* a leaf: api/parts/history.h */
    PL_RANK_STATS = 90,
} pl_rank;

typedef struct pl_lock {
    _Atomic uint32_t state; /* atomic: free, held, or held and perhaps wanted */
    pl_rank rank;           /* const */
    int is_held;            /* lock; debug builds only */
    pthread_t owner;        /* lock; debug builds only */
    uint64_t held_ns;       /* lock: start of the hold; 0 = not timed */
} pl_lock;

/* Threads that wait for a change of state under a lock. All zero before its first use. */
typedef struct pl_cond {
    _Atomic uint32_t n_changes; /* atomic */
    _Atomic uint32_t n_waiting; /* atomic: raised under the lock */
} pl_cond;

/* Values of `state`. */
enum { PL_LOCK_FREE, PL_LOCK_HELD, PL_LOCK_WANTED };

void pl_lock_init(pl_lock *lock, pl_rank rank);
void pl_lock_fini(pl_lock *lock);

/* The slow parts of what follows. */
void pl_lock_acquire_contended(pl_lock *lock);
void pl_lock_wake_one(pl_lock *lock);
void pl_lock_begin_hold(pl_lock *lock);
void pl_lock_end_hold(pl_lock *lock);
extern _Atomic bool pl_lock_is_timing; /* atomic: see pl_lock_time_holds */
/* For debug builds: ranks, owners, and things touched in a hold. */
void pl_lock_note_before(const pl_lock *lock);
void pl_lock_note_acquired(pl_lock *lock);
void pl_lock_note_released(pl_lock *lock);

static inline void pl_lock_acquire(pl_lock *lock)
{
    uint32_t seen = PL_LOCK_FREE;
#if PLEAT_DEBUG_LEVEL >= 1
    pl_lock_note_before(lock);
#endif
    if (!atomic_compare_exchange_strong_explicit(&lock->state, &seen, PL_LOCK_HELD,
                                                 memory_order_acquire, memory_order_relaxed)) {
        pl_lock_acquire_contended(lock);
    }
    if (__builtin_expect(atomic_load_explicit(&pl_lock_is_timing, memory_order_relaxed), 0)) {
        pl_lock_begin_hold(lock);
    }
#if PLEAT_DEBUG_LEVEL >= 1
    pl_lock_note_acquired(lock);
#endif
}

static inline void pl_lock_release(pl_lock *lock)
{
#if PLEAT_DEBUG_LEVEL >= 1
    pl_lock_note_released(lock);
#endif
    if (__builtin_expect(lock->held_ns != 0, 0)) {
        pl_lock_end_hold(lock);
    }
    if (__builtin_expect(atomic_exchange_explicit(&lock->state, PL_LOCK_FREE,
                                                  memory_order_release) == PL_LOCK_WANTED,
                         0)) {
        pl_lock_wake_one(lock);
    }
}
/* Releases the lock and acquires it again. A thread asleep on the lock comes in between; a thread
 * that came some microseconds ago perhaps not yet. If none sleeps, the processor is kept: on a busy
 * machine it would be gone for milliseconds. */
void pl_lock_breathe(pl_lock *lock);
/* Like pl_lock_breathe, but always gives the processor away, since another thread may have to do
 * the awaited work. */
void pl_lock_yield(pl_lock *lock);
/* For tests, called at every breath and yield while the lock is free. NULL = nothing. */
extern void (*pl_lock_breath)(void);
/* Gives the lock up until the next pl_cond_broadcast; may also return for no reason. No
 * cancellation point. */
void pl_lock_wait(pl_lock *lock, pl_cond *cond);
/* Like pl_lock_wait, for at most `ms`. */
void pl_lock_wait_for(pl_lock *lock, pl_cond *cond, uint32_t ms);
void pl_cond_broadcast(pl_cond *cond);
void pl_lock_assert(const pl_lock *lock); /* the caller holds it */
void pl_lock_assert_below(pl_rank rank);  /* the thread holds no lock of that rank or above */
void pl_lock_assert_none(void); /* the thread holds no pleat lock: before driver calls, callbacks */

/* ---- how much is done in one hold of a device lock ------------------------------------------- */

/* The most blocks, granules and lanes that a hold may touch. */
enum { PL_LOCK_MOST_TOUCHED = 4096 };

#if PLEAT_DEBUG_LEVEL >= 1

/* The thread's count since it acquired the device lock, or came back to the lock from a wait. */
extern _Thread_local size_t pl_lock_n_touched;

#endif

/* Count n blocks, granules or lanes that the caller looks at. Does nothing in a release build. */
static inline void pl_lock_touch(size_t n)
{
#if PLEAT_DEBUG_LEVEL >= 1
    pl_lock_n_touched += n;
#else
    (void)n;
#endif
}

size_t pl_lock_touched(void);      /* in this hold; 0 in a release build */
size_t pl_lock_most_touched(void); /* the most in any finished hold, of any thread */
void pl_lock_reset_touched(void);  /* forget the most */

/* Start or stop timing the holds of device locks that begin from now on, and forget the longest.
 * Works in all builds. While off, the timing costs a load and a branch. */
void pl_lock_time_holds(bool is_on);
uint64_t pl_lock_longest_ns(void); /* of the timed holds that ended since the last call */

#endif
