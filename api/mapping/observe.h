/* observe.h - the observers of an instance's mappings.
 *
 * The device that maps or unmaps calls pl_mapping_watch.tell, in no hold of a lock. The lock (rank
 * 10) guards the places and is dropped for each observer; who removes one waits until it runs
 * nowhere. */
#ifndef PLEAT_API_MAPPING_OBSERVE_H
#define PLEAT_API_MAPPING_OBSERVE_H

#include "api/pleat.h"
#include "vmm/base/lock.h"
#include "vmm/mapping_watch.h"

typedef struct pl_mapping_observer {
    pleat_mapping_fn see; /* lock; NULL = the place is free */
    void *context;        /* lock */
    unsigned n_running;   /* lock */
} pl_mapping_observer;

/* I1  watch.n is the number of places with an observer */
typedef struct pl_mapping_observers {
    pl_mapping_watch watch; /* first member: devices know this */
    pl_lock lock;           /* rank 10 */
    pl_cond ended;          /* signals that an observer has returned */
    pl_mapping_observer all[PLEAT_MOST_OBSERVERS];
} pl_mapping_observers;

void pl_mapping_observers_init(pl_mapping_observers *observers);
void pl_mapping_observers_fini(pl_mapping_observers *observers);

#endif
