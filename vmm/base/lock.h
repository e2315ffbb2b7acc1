/* lock.h - mutexes with a rank. Debug builds (level >= 1) assert per thread that ranks strictly
 * increase, and that pl_lock_assert's caller holds the lock. */
#ifndef PLEAT_BASE_LOCK_H
#define PLEAT_BASE_LOCK_H

#include <pthread.h>
#include <stdint.h>

#include "vmm/base/assert.h"

/* In acquisition order: whoever holds a rank may only take higher ones. */
typedef enum pl_rank {
    PL_RANK_API = 10,
    PL_RANK_DEVICE = 20, /* one allocator's state on one device */
    PL_RANK_SEGMENT = 30,
    PL_RANK_VMM = 40,
    PL_RANK_HISTORY = 80, /* a leaf: api/history.h */
    PL_RANK_STATS = 90,
} pl_rank;

typedef struct pl_lock {
    pthread_mutex_t mutex;
    pl_rank rank;    /* const */
    pthread_t owner; /* lock; debug builds only */
    int is_held;     /* lock; debug builds only */
} pl_lock;

int pl_lock_init(pl_lock *lock, pl_rank rank); /* 0, or -1 when the system refuses */
void pl_lock_fini(pl_lock *lock);
void pl_lock_acquire(pl_lock *lock);
void pl_lock_release(pl_lock *lock);
void pl_lock_wait(pl_lock *lock, pthread_cond_t *cond); /* as pthread_cond_wait */
void pl_lock_assert(const pl_lock *lock);               /* the caller holds it */
void pl_lock_assert_below(pl_rank rank); /* the thread holds no lock of that rank or above */
void pl_lock_assert_none(void); /* the thread holds no pleat lock: before driver calls, callbacks */

#endif
