/* slot.c - the static table of instances: entering, leaving, closing, and fork.
 *
 * Upholds: an instance is taken apart only when its generation can no longer be found and every
 * use count is zero. Guarded by the api lock. In a forked child every instance of the parent is
 * marked FORKED and never touched again, not even its locks. Never calls the driver. */
#include "api/instance/slot.h"

#include <sched.h>

#include "vmm/base/cancel.h"

pl_slot pl_slots[PL_N_SLOTS];
_Atomic uint64_t pl_live[PL_N_SLOTS];
pl_api pl_api_state;
_Thread_local pl_thread pl_thread_self;

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- fork ---- */

static void before_fork(void)
{
    pl_lock_acquire(&pl_api_state.lock);
}

static void after_fork_in_parent(void)
{
    pl_lock_release(&pl_api_state.lock);
}

/* Runs in the child: the only thread, which holds the api lock. The parent's waiters are gone, so
 * the condition starts afresh. */
static void after_fork_in_child(void)
{
    for (unsigned i = 0; i < PL_N_SLOTS; i++) {
        if (pl_slots[i].state != PL_SLOT_FREE) {
            pl_slots[i].state = PL_SLOT_FORKED;
            atomic_store(&pl_live[i], 0);
        }
    }
    pl_caller_begin_child();
    pl_api_state.is_creating = false;
    pl_api_state.is_making_default = false;
    pl_api_state.has_sim_conf = false;
    pl_api_state.changed = (pl_cond){ .n_waiting = 0 }; /* the parent's threads are not here */
    pl_lock_release(&pl_api_state.lock);
}

/* atfork fails only without host memory. Then a forked child is not recognised; nothing else is
 * lost. */
static void prepare(void)
{
    pl_lock_init(&pl_api_state.lock, PL_RANK_API);
    int rc = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    pl_assert(rc == 0);
    (void)rc;
}

/* ---- the api lock ---- */

void pl_api_acquire(void)
{
    pthread_once(&once, prepare);
    pl_lock_acquire(&pl_api_state.lock);
}

void pl_api_release(void)
{
    pl_lock_release(&pl_api_state.lock);
}

void pl_api_claim(bool *flag)
{
    pl_api_acquire();
    while (*flag) {
        pl_lock_wait(&pl_api_state.lock, &pl_api_state.changed);
    }
    *flag = true;
    pl_api_release();
}

void pl_api_unclaim(bool *flag)
{
    pl_api_acquire();
    *flag = false;
    pl_cond_broadcast(&pl_api_state.changed);
    pl_api_release();
}

/* ---- entering ---- */

static uint32_t index_of(const pl_slot *slot)
{
    return (uint32_t)(slot - pl_slots);
}

static bool is_own_callback(pleat handle)
{
    return pl_thread_self.is_in_callback && pl_thread_self.callback_of.slot == handle.slot &&
           pl_thread_self.callback_of.generation == handle.generation;
}

/* The handle's slot, if it still has the handle's generation. */
static pl_slot *find_locked(pleat handle)
{
    pl_lock_assert(&pl_api_state.lock);
    if (handle.slot - 1U >= PL_N_SLOTS) {
        return NULL;
    }
    pl_slot *slot = &pl_slots[handle.slot - 1U];
    bool is_held = slot->state != PL_SLOT_FREE && slot->generation == handle.generation;
    return is_held ? slot : NULL;
}

static pleat_status status_locked(const pl_slot *slot)
{
    if (slot && slot->state == PL_SLOT_FORKED) {
        return PLEAT_EFORKED;
    }
    return slot && slot->state == PL_SLOT_OPEN ? PLEAT_OK : PLEAT_EGONE;
}

static pleat_status refuse(pleat handle, pleat_status status)
{
    if (status == PLEAT_EFORKED) {
        return pl_error_set(status, 0,
                            "the instance was made before fork and this is the child: create "
                            "one in the child, or start the child with exec");
    }
    return pl_error_set(status, 0,
                        "the instance (slot %u, generation %u) was destroyed or never created",
                        handle.slot, handle.generation);
}

pl_use pl_use_enter_unusual(pleat handle)
{
    pl_use use = { .instance = NULL };
    if (pl_thread_self.is_observing) {
        pl_error_set(PLEAT_EBUSY, 0, "an observer of mappings must not call pleat");
        return use;
    }
    if (!pl_caller_join()) {
        pl_error_set(PLEAT_ENOMEM_HOST, 0, "out of host memory: the thread cannot be noted");
        return use;
    }
    pl_api_acquire();
    pl_slot *slot = find_locked(handle);
    pleat_status st = status_locked(slot);
    if (slot && slot->state == PL_SLOT_CLOSING && is_own_callback(handle)) {
        st = PLEAT_OK; /* the public call around the callback keeps the instance alive */
    }
    if (st == PLEAT_OK) {
        use = (pl_use){ &slot->instance, pl_caller_self, index_of(slot) };
        pl_caller_enter(use.self, use.slot);
    }
    pl_api_release();
    if (st != PLEAT_OK) {
        refuse(handle, st);
    }
    return use;
}

pleat_status pl_slot_probe(pleat handle)
{
    pl_api_acquire();
    pleat_status st = status_locked(find_locked(handle));
    pl_api_release();
    return st;
}

bool pl_use_is_forked(const pl_instance *instance)
{
    return pl_slot_probe(instance->handle) == PLEAT_EFORKED;
}

/* ---- coming and going ---- */

pleat_status pl_slot_take(pl_slot **out)
{
    pl_slot *found = NULL;
    pl_api_acquire();
    for (unsigned i = 0; i < PL_N_SLOTS && !found; i++) {
        found = pl_slots[i].state == PL_SLOT_FREE ? &pl_slots[i] : NULL;
    }
    if (found) {
        found->state = PL_SLOT_MAKING;
        found->is_on_sim = false;
        found->generation = found->generation == UINT32_MAX ? 1 : found->generation + 1;
    }
    pl_api_release();
    if (!found) {
        return pl_error_set(PLEAT_ENOMEM_HOST, 0,
                            "there are %d instances already, the most of a process", PL_N_SLOTS);
    }
    *out = found;
    return PLEAT_OK;
}

static void open_locked(pl_slot *slot)
{
    pl_lock_assert(&pl_api_state.lock);
    slot->state = PL_SLOT_OPEN;
    atomic_store(&pl_live[index_of(slot)], pl_handle_word(slot->instance.handle));
}

void pl_slot_publish(pl_slot *slot, bool is_on_sim)
{
    pl_api_acquire();
    slot->is_on_sim = is_on_sim;
    open_locked(slot);
    pl_api_release();
}

void pl_slot_reopen(pl_slot *slot)
{
    pl_api_acquire();
    open_locked(slot);
    pl_api_release();
}

void pl_slot_give_back(pl_slot *slot)
{
    pl_api_acquire();
    slot->state = PL_SLOT_FREE;
    pl_api_release();
}

/* Users do not signal when they leave: leaving stays cheap. So destruction polls, ever less often.
 * */
static void wait_for_users(const pl_slot *slot)
{
    enum { N_YIELDS = 100, FIRST_NS = 20000, MOST_NS = 1000000 };
    long pause_ns = FIRST_NS;
    pl_barrier_heavy();
    for (unsigned n_looks = 0; pl_caller_any(index_of(slot)); n_looks++) {
        if (n_looks < N_YIELDS) {
            sched_yield();
            continue;
        }
        pl_sleep_ns(pause_ns);
        pause_ns = pause_ns * 2 < MOST_NS ? pause_ns * 2 : MOST_NS;
    }
}

pleat_status pl_slot_close(pleat handle, pl_slot **out)
{
    pl_api_acquire();
    pl_slot *slot = find_locked(handle);
    pleat_status st = status_locked(slot);
    if (st == PLEAT_OK) {
        slot->state = PL_SLOT_CLOSING;
        atomic_store(&pl_live[index_of(slot)], 0);
    }
    pl_api_release();
    if (st != PLEAT_OK) {
        return refuse(handle, st);
    }
    wait_for_users(slot);
    *out = slot;
    return PLEAT_OK;
}
