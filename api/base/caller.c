/* caller.c - see caller.h. The list of records has a lock of its own (rank 90, a leaf). Never calls
 * the driver. */
#include "api/base/caller.h"

#include <pthread.h>
#include <string.h>

#include "vmm/base/lasting.h"
#include "vmm/base/lock.h"

_Thread_local pl_caller *pl_caller_self;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct {
    bool has_key;      /* const after `once` */
    pthread_key_t key; /* const after `once` */
    pl_lock lock;
    pl_caller *first; /* lock: of all records */
} all;

/* The thread ends. Later destructors may call again, and then get a new record. */
static void leave_record(void *record)
{
    pl_caller_self = NULL;
    pl_lock_acquire(&all.lock);
    ((pl_caller *)record)->is_taken = false;
    pl_lock_release(&all.lock);
}

static void prepare(void)
{
    pl_lock_init(&all.lock, PL_RANK_STATS);
    pl_barrier_prepare();
    all.has_key = pthread_key_create(&all.key, leave_record) == 0;
}

static pl_caller *take_used(void)
{
    pl_lock_acquire(&all.lock);
    pl_caller *record = all.first;
    while (record && record->is_taken) {
        record = record->next;
    }
    if (record) {
        record->is_taken = true;
    }
    pl_lock_release(&all.lock);
    return record;
}

static pl_caller *make(void)
{
    pl_caller *record = pl_lasting_alloc(sizeof *record);
    if (record) {
        pl_lock_acquire(&all.lock);
        record->is_taken = true;
        record->next = all.first;
        all.first = record;
        pl_lock_release(&all.lock);
    }
    return record;
}

bool pl_caller_join(void)
{
    if (pl_caller_self) {
        return true;
    }
    (void)pthread_once(&once, prepare);
    pl_caller *record = all.has_key ? take_used() : NULL;
    record = record || !all.has_key ? record : make();
    if (record && pthread_setspecific(all.key, record) != 0) {
        leave_record(record);
        return false;
    }
    pl_caller_self = record;
    return record != NULL;
}

bool pl_caller_any(uint32_t slot)
{
    bool is_any = false;
    pl_lock_acquire(&all.lock);
    for (pl_caller *record = all.first; record && !is_any; record = record->next) {
        is_any = atomic_load_explicit(&record->n_uses[slot], memory_order_acquire) != 0;
    }
    pl_lock_release(&all.lock);
    return is_any;
}

/* Another thread may have held the lock during the fork. */
void pl_caller_begin_child(void)
{
    pl_lock_init(&all.lock, PL_RANK_STATS);
    for (pl_caller *record = all.first; record; record = record->next) {
        if (record != pl_caller_self) {
            memset(record->n_uses, 0, sizeof record->n_uses);
            record->is_taken = false;
        }
    }
}
