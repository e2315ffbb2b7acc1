/* thread_life.c - see thread_life.h. Guarded by a lock of its own (rank 90, a leaf), held for a few
 * instructions. A record is written by its thread and by its holders. The destructor of the
 * thread's key runs at the thread's end, before its memory goes. */
#include "vmm/streams/thread_life.h"

#include <pthread.h>
#include <stdatomic.h>

#include "vmm/base/lasting.h"
#include "vmm/base/lock.h"

struct pl_thread_life {
    _Atomic bool is_over;        /* atomic */
    uint64_t number;             /* const, during one thread's time */
    unsigned n_holders;          /* lock */
    struct pl_thread_life *next; /* lock: next record without holders */
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct {
    bool is_ready;     /* const after `once`: lock and key exist */
    pthread_key_t key; /* const after `once` */
    pl_lock lock;
    pl_thread_life *free;       /* lock */
    _Atomic uint64_t n_threads; /* atomic */
} all;

static _Thread_local pl_thread_life *own;

void pl_thread_life_hold(pl_thread_life *life)
{
    pl_lock_acquire(&all.lock);
    life->n_holders++;
    pl_lock_release(&all.lock);
}

void pl_thread_life_drop(pl_thread_life *life)
{
    if (life == NULL) {
        return;
    }
    pl_lock_acquire(&all.lock);
    if (--life->n_holders == 0) {
        life->next = all.free;
        all.free = life;
    }
    pl_lock_release(&all.lock);
}

static void end_thread(void *life)
{
    own = NULL;
    atomic_store_explicit(&((pl_thread_life *)life)->is_over, true, memory_order_release);
    pl_thread_life_drop(life);
}

/* Another thread may have held the lock during the fork, so the child begins anew and leaves its
 * parent's records alone. */
static void begin_child(void)
{
    all.free = NULL;
    own = NULL;
    pl_lock_init(&all.lock, PL_RANK_STATS);
}

static void open_all(void)
{
    pl_lock_init(&all.lock, PL_RANK_STATS);
    all.is_ready = pthread_key_create(&all.key, end_thread) == 0 &&
                   pthread_atfork(NULL, NULL, begin_child) == 0;
}

static pl_thread_life *take_used(void)
{
    pl_lock_acquire(&all.lock);
    pl_thread_life *life = all.free;
    all.free = life != NULL ? life->next : NULL;
    pl_lock_release(&all.lock);
    return life;
}

static pl_thread_life *take(void)
{
    pl_thread_life *life = take_used();
    life = life != NULL ? life : pl_lasting_alloc(sizeof(*life));
    if (life != NULL) {
        *life = (pl_thread_life){ .number = atomic_fetch_add(&all.n_threads, 1) + 1,
                                  .n_holders = 1 };
    }
    return life;
}

pl_thread_life *pl_thread_life_own(void)
{
    if (own != NULL) {
        return own;
    }
    (void)pthread_once(&once, open_all);
    pl_thread_life *life = all.is_ready ? take() : NULL;
    if (life != NULL && pthread_setspecific(all.key, life) != 0) {
        pl_thread_life_drop(life);
        return NULL;
    }
    own = life;
    return life;
}

uint64_t pl_thread_life_number(const pl_thread_life *life)
{
    return life->number;
}

bool pl_thread_life_is_over(const pl_thread_life *life)
{
    return atomic_load_explicit(&life->is_over, memory_order_acquire);
}
