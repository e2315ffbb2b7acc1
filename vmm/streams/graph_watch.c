/* graph_watch.c - see graph_watch.h. The owner and the driver both hold a watch. The process owns
 * the watch, since a graph may outlive the instance. The destructor runs in one of the driver's
 * threads, makes no driver call and takes no lock. */
#include "vmm/streams/graph_watch.h"

#include <stdatomic.h>

#include "vmm/base/lasting.h"
#include "vmm/device_state.h"
#include "vmm/left.h"

/* Bits of `state`. The side that sets the second bit gives the watch back. */
enum { GONE = 1, ENDED = 2 };

struct pl_graph_watch {
    _Atomic int state;                     /* atomic */
    _Atomic(struct pl_graph_watch *) next; /* atomic: in the list of watches to be reused */
};

enum { SLAB_WATCHES = 64 };

/* Watches given back, at any time and by any thread. The whole list is taken at once, so no watch
 * is taken twice. */
static _Atomic(pl_graph_watch *) given_back;
static _Atomic uint64_t n_gone;

static void give_back(pl_graph_watch *watch)
{
    pl_graph_watch *first = atomic_load(&given_back);
    do {
        atomic_store_explicit(&watch->next, first, memory_order_relaxed);
    } while (!atomic_compare_exchange_weak(&given_back, &first, watch));
}

static void mark(pl_graph_watch *watch, int bit)
{
    if ((atomic_fetch_or(&watch->state, bit) | bit) == (GONE | ENDED)) {
        give_back(watch);
    }
}

static void graph_is_gone(void *watch)
{
    mark(watch, GONE);
    atomic_fetch_add(&n_gone, 1);
}

/* Makes a slab. All its watches except the first go to the list. */
static pl_graph_watch *make_some(void)
{
    pl_graph_watch *slab = pl_lasting_alloc(SLAB_WATCHES * sizeof(*slab));
    for (size_t i = 1; slab != NULL && i < SLAB_WATCHES; i++) {
        give_back(&slab[i]);
    }
    return slab;
}

static pl_graph_watch *take(void)
{
    pl_graph_watch *watch = atomic_exchange(&given_back, NULL);
    if (watch == NULL) {
        watch = make_some();
    } else {
        pl_graph_watch *rest = atomic_load_explicit(&watch->next, memory_order_relaxed);
        while (rest != NULL) {
            pl_graph_watch *next = atomic_load_explicit(&rest->next, memory_order_relaxed);
            give_back(rest);
            rest = next;
        }
    }
    if (watch != NULL) {
        atomic_store(&watch->state, 0);
    }
    return watch;
}

/* The graph gets the object's one reference. */
static cu_result attach(pl_device *dev, cu_graph graph, pl_graph_watch *watch)
{
    cu_user_object object = NULL;
    cu_result result = pl_cu_user_object_create(dev->drv, &object, watch, graph_is_gone, 1,
                                                CU_OBJECT_UNSYNCED);
    if (result != CU_SUCCESS) {
        give_back(watch);
        return result;
    }
    result = pl_cu_graph_retain_user_object(dev->drv, graph, object, 1, CU_OBJECT_MOVE);
    if (result != CU_SUCCESS) { /* this calls the destructor */
        pl_left_undo(dev, PL_LEFT_OBJECT, (uintptr_t)object, 0);
        mark(watch, ENDED);
    }
    return result;
}

pleat_status pl_graph_watch_begin(pl_device *dev, void *graph, pl_graph_watch **out)
{
    if (!pl_driver_has(dev->drv, PL_CU_user_object_create) ||
        !pl_driver_has(dev->drv, PL_CU_user_object_release) ||
        !pl_driver_has(dev->drv, PL_CU_graph_retain_user_object)) {
        return PLEAT_ENOTSUP;
    }
    pl_graph_watch *watch = take();
    if (watch == NULL) {
        return PLEAT_ENOMEM_HOST;
    }
    cu_result result = attach(dev, graph, watch);
    if (result == CU_NOT_FOUND || result == CU_NOT_SUPPORTED) {
        return PLEAT_ENOTSUP;
    }
    if (result != CU_SUCCESS) {
        return pl_driver_failure(result);
    }
    *out = watch;
    return PLEAT_OK;
}

bool pl_graph_watch_is_gone(const pl_graph_watch *watch)
{
    return (atomic_load(&watch->state) & GONE) != 0;
}

void pl_graph_watch_end(pl_graph_watch *watch)
{
    if (watch != NULL) {
        mark(watch, ENDED);
    }
}

uint64_t pl_graph_watch_n_gone(void)
{
    return atomic_load(&n_gone);
}
