/* observe.h - the observers of an instance's mappings. The calls are in api/mapping.
 *
 * The device that maps or unmaps calls pl_mapping_watch.tell, holding no lock. The lock (rank 10)
 * guards the places and is dropped for each observer. A thread that removes an observer waits until
 * no thread runs it. */
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

/* A compaction maps and unmaps under the device's lock, where no callback may run, and might move
 * registered memory. So an instance has compactions or observers, never both.
 *
 * I1  watch.n is the number of places with an observer
 * I2  watch.n == 0 or n_moving == 0 */
typedef struct pl_mapping_observers {
    pl_mapping_watch watch; /* first member: devices know this */
    pl_lock lock;           /* rank 10 */
    pl_cond ended;          /* signals that an observer has returned */
    unsigned n_moving;      /* lock: compactions under way */
    unsigned n_torn; /* lock: devices with memory left unmapped, for a later compaction to map */
    pl_mapping_observer all[PLEAT_MOST_OBSERVERS];
} pl_mapping_observers;

void pl_mapping_observers_init(pl_mapping_observers *observers);
void pl_mapping_observers_fini(pl_mapping_observers *observers);
/* A compaction begins; false while somebody observes. Its end says whether memory is left torn. */
bool pl_mapping_observers_begin_move(pl_mapping_observers *observers);
void pl_mapping_observers_end_move(pl_mapping_observers *observers, pleat_status st, bool *is_torn);

#endif
