/* lock.c - mutexes with a rank.
 *
 * The lock is a word for the kernel's futex, with the states free, held, and held and perhaps
 * wanted. Releasing a wanted lock wakes one thread (the third mutex of U. Drepper, "Futexes are
 * tricky", 2011). An uncontended hold costs two atomic operations, and the holder can see whether
 * others sleep. A thread looks for some microseconds before it sleeps. A condition is a count that
 * a wait sleeps on.
 *
 * A debug build keeps, per thread, the ranks held in the order of acquisition. The thread must
 * acquire locks in rising rank, so no cycle of waiting threads can form. A debug build also counts
 * the things touched in each hold of a device lock. May call nothing except the kernel, the clock
 * and pl_assert. */
#include "vmm/base/lock.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "vmm/base/clock.h"

/* ---- ranks, and what is touched -------------------------------------------------------------- */

static _Atomic size_t most_touched; /* atomic */

static bool guards_a_device(const pl_lock *lock)
{
    return lock->rank == PL_RANK_CLASSIC || lock->rank == PL_RANK_DEVICE;
}

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

void pl_lock_note_before(const pl_lock *lock)
{
    pl_assert(n_held < MAX_HELD);
    pl_assert(n_held == 0 || held[n_held - 1] < lock->rank);
}

void pl_lock_note_acquired(pl_lock *lock)
{
    lock->owner = pthread_self();
    lock->is_held = 1;
    held[n_held++] = lock->rank;
    if (guards_a_device(lock)) {
        pl_lock_n_touched = 0;
    }
}

/* Locks may be released in any order, so take this rank out of the middle. */
void pl_lock_note_released(pl_lock *lock)
{
    pl_lock_assert(lock);
    if (guards_a_device(lock)) {
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

void pl_lock_begin_hold(pl_lock *lock)
{
    if (guards_a_device(lock)) {
        lock->held_ns = pl_clock_ns();
    }
}

void pl_lock_end_hold(pl_lock *lock)
{
    uint64_t ns = pl_clock_ns() - lock->held_ns;
    uint64_t longest = atomic_load(&longest_ns);
    while (ns > longest && !atomic_compare_exchange_weak(&longest_ns, &longest, ns)) {
    }
    lock->held_ns = 0;
}

_Atomic bool pl_lock_is_timing; /* atomic */

void pl_lock_time_holds(bool is_on)
{
    atomic_store(&pl_lock_is_timing, is_on);
    atomic_store(&longest_ns, 0);
}

uint64_t pl_lock_longest_ns(void)
{
    return atomic_exchange(&longest_ns, 0);
}

/* ---- the lock -------------------------------------------------------------------------------- */

/* Sleeps until *word differs from `seen`, or `most` is over (NULL = never). A signal, or nothing at
 * all, may also end the sleep. syscall() is no cancellation point. */
static void futex_wait(_Atomic uint32_t *word, uint32_t seen, const struct timespec *most)
{
    int error = errno;
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, most, NULL, 0);
    errno = error;
}

static void futex_wake(_Atomic uint32_t *word, int n)
{
    int error = errno;
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
    errno = error;
}

void pl_lock_init(pl_lock *lock, pl_rank rank)
{
    *lock = (pl_lock){ .rank = rank };
}

void pl_lock_fini(pl_lock *lock)
{
    pl_assert(atomic_load(&lock->state) == PL_LOCK_FREE);
    (void)lock;
}

/* Tell the processor that the thread waits in a loop. */
static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* With one processor the holder cannot go on while a waiter looks. */
static bool has_several_processors(void)
{
    static _Atomic int several; /* atomic: 0 = not asked yet */
    int known = atomic_load_explicit(&several, memory_order_relaxed);

    if (known == 0) {
        cpu_set_t set; /* with more processors than it holds the call fails */
        int error = errno;
        bool is_one = sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) == 1;
        known = is_one ? -1 : 1;
        errno = error;
        atomic_store_explicit(&several, known, memory_order_relaxed);
    }
    return known > 0;
}

enum { MOST_LOOKS = 256 }; /* some microseconds: to sleep and be woken takes no less */

/* Most holds last a tenth of a microsecond. The lock stays HELD, so a release wakes nobody. */
static bool acquire_soon(pl_lock *lock)
{
    for (unsigned n = has_several_processors() ? MOST_LOOKS : 0; n > 0; n--) {
        uint32_t seen = atomic_load_explicit(&lock->state, memory_order_relaxed);
        if (seen == PL_LOCK_FREE &&
            atomic_compare_exchange_weak_explicit(&lock->state, &seen, PL_LOCK_HELD,
                                                  memory_order_acquire, memory_order_relaxed)) {
            return true;
        }
        relax();
    }
    return false;
}

/* A thread that has slept cannot know whether other threads still sleep, so it leaves the lock
 * WANTED. */
void pl_lock_acquire_contended(pl_lock *lock)
{
    if (acquire_soon(lock)) {
        return;
    }
    while (atomic_exchange_explicit(&lock->state, PL_LOCK_WANTED, memory_order_acquire) !=
           PL_LOCK_FREE) {
        futex_wait(&lock->state, PL_LOCK_WANTED, NULL);
    }
}

void pl_lock_wake_one(pl_lock *lock)
{
    futex_wake(&lock->state, 1);
}

void (*pl_lock_breath)(void);

static void give_way(pl_lock *lock, bool is_always)
{
    bool is_wanted = atomic_load_explicit(&lock->state, memory_order_relaxed) == PL_LOCK_WANTED;
    pl_lock_release(lock);
    if (pl_lock_breath != NULL) {
        pl_lock_breath();
    } else if (is_wanted || is_always) {
        (void)sched_yield(); /* else this thread would reacquire before a sleeper wakes */
    }
    pl_lock_acquire(lock);
}

void pl_lock_breathe(pl_lock *lock)
{
    give_way(lock, false);
}

void pl_lock_yield(pl_lock *lock)
{
    give_way(lock, true);
}

static void wait_for_change(pl_lock *lock, pl_cond *cond, const struct timespec *most)
{
    uint32_t seen = atomic_load_explicit(&cond->n_changes, memory_order_relaxed);
    atomic_fetch_add_explicit(&cond->n_waiting, 1, memory_order_relaxed);
    pl_lock_release(lock);
    futex_wait(&cond->n_changes, seen, most);
    pl_lock_acquire(lock);
    atomic_fetch_sub_explicit(&cond->n_waiting, 1, memory_order_relaxed);
}

void pl_lock_wait(pl_lock *lock, pl_cond *cond)
{
    wait_for_change(lock, cond, NULL);
}

void pl_lock_wait_for(pl_lock *lock, pl_cond *cond, uint32_t ms)
{
    struct timespec most = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };
    wait_for_change(lock, cond, &most);
}

/* The caller changed the awaited state under the lock, so earlier waiters are counted. n_changes
 * wraps after 2^32 broadcasts. Only a wait that began exactly so many broadcasts ago would miss its
 * own. */
void pl_cond_broadcast(pl_cond *cond)
{
    atomic_fetch_add_explicit(&cond->n_changes, 1, memory_order_relaxed);
    if (atomic_load_explicit(&cond->n_waiting, memory_order_relaxed) > 0) {
        futex_wake(&cond->n_changes, INT_MAX);
    }
}
