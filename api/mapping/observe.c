/* observe.c - see observe.h.
 *
 * While an observer runs, its thread has no caller's record. So every public call of the observer
 * takes the slow entrance (instance.h), which refuses the call. */
#include "api/parts/observe.h"

#include "api/instance/instance.h"
#include "vmm/base/cancel.h"

/* Of the thread that an observer interrupts. */
typedef struct interrupted {
    pl_caller *self;
    int cancel;
    bool is_observing;
} interrupted;

static interrupted begin(void)
{
    interrupted thread = { pl_caller_self, pl_cancel_off(), pl_thread_self.is_observing };
    pl_lock_assert_none();
    pl_caller_self = NULL;
    pl_thread_self.is_observing = true;
    return thread;
}

static void end(interrupted thread)
{
    pl_thread_self.is_observing = thread.is_observing;
    pl_caller_self = thread.self;
    pl_cancel_restore(thread.cancel);
}

static void tell(pl_mapping_watch *watch, int device, bool has_come, pleat_devptr base,
                 uint64_t bytes)
{
    pl_mapping_observers *observers = (pl_mapping_observers *)watch; /* its first member */
    pl_lock_acquire(&observers->lock);
    for (unsigned i = 0; i < PLEAT_MOST_OBSERVERS; i++) {
        pl_mapping_observer *one = &observers->all[i];
        pleat_mapping_fn see = one->see;
        void *context = one->context;
        if (!see) {
            continue;
        }
        one->n_running++;
        pl_lock_release(&observers->lock);
        interrupted thread = begin();
        see(device, has_come ? PLEAT_MAPPING_COME : PLEAT_MAPPING_GO, base, bytes, context);
        end(thread);
        pl_lock_acquire(&observers->lock);
        one->n_running--;
        pl_cond_broadcast(&observers->ended);
    }
    pl_lock_release(&observers->lock);
}

void pl_mapping_observers_init(pl_mapping_observers *observers)
{
    observers->watch.tell = tell;
    pl_lock_init(&observers->lock, PL_RANK_API);
}

void pl_mapping_observers_fini(pl_mapping_observers *observers)
{
    pl_lock_fini(&observers->lock);
}

/* ---- compactions ----------------------------------------------------------------------------- */

bool pl_mapping_observers_begin_move(pl_mapping_observers *observers)
{
    pl_lock_acquire(&observers->lock);
    bool is_free = atomic_load_explicit(&observers->watch.n, memory_order_relaxed) == 0;
    observers->n_moving += is_free;
    pl_lock_release(&observers->lock);
    return is_free;
}

void pl_mapping_observers_end_move(pl_mapping_observers *observers, pleat_status st, bool *is_torn)
{
    pl_lock_acquire(&observers->lock);
    observers->n_moving--;
    if (st == PLEAT_EPOISONED && !*is_torn) {
        *is_torn = true;
        observers->n_torn++;
    } else if (st == PLEAT_OK && *is_torn) {
        *is_torn = false;
        observers->n_torn--;
    }
    pl_lock_release(&observers->lock);
}

/* ---- public calls ---------------------------------------------------------------------------- */

/* A place whose last observer has returned everywhere. */
static pl_mapping_observer *find_place_locked(pl_mapping_observers *observers)
{
    pl_lock_assert(&observers->lock);
    for (unsigned i = 0; i < PLEAT_MOST_OBSERVERS; i++) {
        pl_mapping_observer *one = &observers->all[i];
        if (!one->see && one->n_running == 0) {
            return one;
        }
    }
    return NULL;
}

pleat_status pleat_mapping_observe(pleat handle, pleat_mapping_fn see, void *context,
                                   unsigned *number)
{
    if (!see || !number) {
        return pl_error_set(PLEAT_EINVAL, 0, "pleat_mapping_observe: `%s` is NULL",
                            see ? "number" : "see");
    }
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    pl_mapping_observers *observers = &use.instance->observers;
    pl_lock_acquire(&observers->lock);
    bool is_moving = observers->n_moving > 0 || observers->n_torn > 0;
    pl_mapping_observer *place = is_moving ? NULL : find_place_locked(observers);
    if (place) {
        place->see = see;
        place->context = context;
        atomic_fetch_add_explicit(&observers->watch.n, 1, memory_order_release);
        *number = (unsigned)(place - observers->all) + 1;
    }
    pl_lock_release(&observers->lock);
    pl_use_leave(use);
    if (is_moving) {
        return pl_error_set(PLEAT_EBUSY, 0,
                            "mappings are not observed while a compaction runs, or after one that "
                            "failed half way, until another one succeeds");
    }
    return place ? PLEAT_OK
                 : pl_error_set(PLEAT_ENOMEM_HOST, 0, "an instance has at most %d observers",
                                PLEAT_MOST_OBSERVERS);
}

static bool remove_locked(pl_mapping_observers *observers, unsigned number)
{
    pl_lock_assert(&observers->lock);
    pl_mapping_observer *one = &observers->all[(number - 1) % PLEAT_MOST_OBSERVERS];
    if (number == 0 || number > PLEAT_MOST_OBSERVERS || !one->see) {
        return false;
    }
    one->see = NULL;
    atomic_fetch_sub_explicit(&observers->watch.n, 1, memory_order_release);
    while (one->n_running > 0) {
        pl_lock_wait(&observers->lock, &observers->ended);
    }
    return true;
}

pleat_status pleat_mapping_unobserve(pleat handle, unsigned number)
{
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    int cancel = pl_cancel_off();
    pl_lock_acquire(&use.instance->observers.lock);
    bool was_there = remove_locked(&use.instance->observers, number);
    pl_lock_release(&use.instance->observers.lock);
    pl_cancel_restore(cancel);
    pl_use_leave(use);
    return was_there ? PLEAT_OK : pl_error_set(PLEAT_EINVAL, 0, "there is no observer %u", number);
}
