/* user_object.c - reference counts, and destructors outside of every lock.
 *
 * Upholds U1 and U2 (user_object.h). A driver runs destructors on a thread of its own, some time
 * after the last reference went. The simulator's destructors run in the releasing call, after the
 * lock is given back and before the call returns. Handles are recycled like others. Source: CUDA
 * Driver API, cuUserObjectCreate to cuGraphReleaseUserObject. */
#include "vmm/tools/sim/work/user_object.h"

#include <limits.h>
#include <stdlib.h>

#define HANDLE_BASE UINT64_C(0x540000000000)
enum { HANDLE_STEP = 64 };

struct sim_due {
    sim_due *next;
    cu_host_fn destroy;
    void *ptr;
};

static sim_due *due_first; /* lock */
static sim_due **due_link = &due_first;
static _Thread_local bool is_running;

static sim_user_object *find_object(cu_user_object handle)
{
    uint64_t value = (uint64_t)(uintptr_t)handle - HANDLE_BASE;
    if (value % HANDLE_STEP != 0 || value / HANDLE_STEP >= sim.user_objects.n_seen) {
        return NULL;
    }
    sim_user_object *object = sim_pool_at(&sim.user_objects, (uint32_t)(value / HANDLE_STEP));
    return object->is_live ? object : NULL;
}

/* Drops references. With the last reference the destructor becomes due. */
static void drop(sim_user_object *object, uint64_t n)
{
    object->n_refs -= n;
    if (object->n_refs > 0) {
        return;
    }
    sim_due *due = sim_new(sizeof(*due));
    due->destroy = object->destroy;
    due->ptr = object->ptr;
    *due_link = due;
    due_link = &due->next;
    object->is_live = false;
    sim.n_user_objects--;
    sim_pool_give(&sim.user_objects, object->index);
}

static bool is_count(unsigned n)
{
    return n > 0 && n <= INT_MAX;
}

cu_result sim_user_object_create(cu_user_object *out, void *ptr, cu_host_fn destroy, unsigned n,
                                 unsigned flags)
{
    if (out == NULL || destroy == NULL || !is_count(n) || flags != CU_OBJECT_UNSYNCED) {
        return CU_INVALID_VALUE;
    }
    uint32_t index;
    sim_user_object *object = sim_pool_take(&sim.user_objects, &index);
    *object = (sim_user_object){
        .index = index,
        .is_live = true,
        .ptr = ptr,
        .destroy = destroy,
        .n_refs = n,
        .n_own = n,
    };
    sim.n_user_objects++;
    *out = (cu_user_object)(uintptr_t)(HANDLE_BASE + (uint64_t)index * HANDLE_STEP);
    return CU_SUCCESS;
}

cu_result sim_user_object_retain(cu_user_object handle, unsigned n)
{
    sim_user_object *object = find_object(handle);
    if (object == NULL || !is_count(n)) {
        return CU_INVALID_VALUE;
    }
    object->n_refs += n;
    object->n_own += n;
    return CU_SUCCESS;
}

cu_result sim_user_object_release(cu_user_object handle, unsigned n)
{
    sim_user_object *object = find_object(handle);
    if (object == NULL || !is_count(n) || object->n_own < n) {
        return CU_INVALID_VALUE;
    }
    object->n_own -= n;
    drop(object, n);
    return CU_SUCCESS;
}

/* ---- what graphs hold ------------------------------------------------------------------------ */

static sim_hold *find_hold(const sim_holds *holds, const sim_user_object *object)
{
    for (uint32_t i = 0; holds != NULL && i < holds->n; i++) {
        if (holds->items[i].object == object) {
            return &holds->items[i];
        }
    }
    return NULL;
}

static void add_hold(sim_holds **holds, sim_user_object *object, uint64_t n)
{
    sim_hold *hold = find_hold(*holds, object);
    if (hold != NULL) {
        hold->n += n;
        return;
    }
    sim_holds *to = *holds;
    if (to == NULL) {
        to = sim_new(sizeof(*to));
        to->refs = 1;
        *holds = to;
    }
    to->items = sim_grow(to->items, (to->n + 1) * sizeof(to->items[0]));
    to->items[to->n++] = (sim_hold){ object, n };
}

cu_result sim_holds_retain(sim_holds **holds, cu_user_object handle, unsigned n, unsigned flags)
{
    sim_user_object *object = find_object(handle);
    bool is_move = flags == CU_OBJECT_MOVE;
    if (object == NULL || !is_count(n) || (flags != 0 && !is_move) ||
        (is_move && object->n_own < n)) {
        return CU_INVALID_VALUE;
    }
    if (is_move) {
        object->n_own -= n;
    } else {
        object->n_refs += n;
    }
    add_hold(holds, object, n);
    return CU_SUCCESS;
}

cu_result sim_holds_release(sim_holds *holds, cu_user_object handle, unsigned n)
{
    sim_user_object *object = find_object(handle);
    sim_hold *hold = object == NULL ? NULL : find_hold(holds, object);
    if (hold == NULL || !is_count(n) || hold->n < n) {
        return CU_INVALID_VALUE;
    }
    hold->n -= n;
    if (hold->n == 0) {
        *hold = holds->items[--holds->n];
    }
    drop(object, n);
    return CU_SUCCESS;
}

sim_holds *sim_holds_clone(const sim_holds *holds)
{
    sim_holds *clone = NULL;
    for (uint32_t i = 0; holds != NULL && i < holds->n; i++) {
        holds->items[i].object->n_refs += holds->items[i].n;
        add_hold(&clone, holds->items[i].object, holds->items[i].n);
    }
    return clone;
}

sim_holds *sim_holds_ref(sim_holds *holds)
{
    holds->refs++;
    return holds;
}

void sim_holds_unref(sim_holds *holds)
{
    if (holds == NULL || --holds->refs > 0) {
        return;
    }
    for (uint32_t i = 0; i < holds->n; i++) {
        drop(holds->items[i].object, holds->items[i].n);
    }
    free(holds->items);
    free(holds);
}

/* ---- destructors ----------------------------------------------------------------------------- */

sim_due *sim_user_object_take_due(void)
{
    sim_due *due = due_first;
    due_first = NULL;
    due_link = &due_first;
    return due;
}

void sim_user_object_run(sim_due *due)
{
    while (due != NULL) {
        sim_due *next = due->next;
        is_running = true;
        due->destroy(due->ptr);
        is_running = false;
        free(due);
        due = next;
    }
}

bool sim_user_object_is_running(void)
{
    return is_running;
}

void sim_user_object_fini(void)
{
    sim_due *due = sim_user_object_take_due();
    while (due != NULL) {
        sim_due *next = due->next;
        free(due);
        due = next;
    }
    sim_pool_fini(&sim.user_objects);
}
