/* mapping_watch.h - tells a watcher when memory comes to addresses, and before it goes.
 *
 * A device reports everything it maps and unmaps: chunks, foreign memory (share.h), and pieces of
 * pl_device_malloc. The device tells next to its driver calls, so never in a hold of a lock. */
#ifndef PLEAT_VMM_MAPPING_WATCH_H
#define PLEAT_VMM_MAPPING_WATCH_H

#include <stdatomic.h>

#include "vmm/base/pleat_types.h"

typedef struct pl_mapping_watch {
    /* Memory has come to [base, base + bytes), or is about to go from there. Holds no lock. */
    void (*tell)(struct pl_mapping_watch *self, int device, bool has_come, pleat_devptr base,
                 uint64_t bytes);
    _Atomic unsigned n; /* atomic: 0 = nobody wants to know */
} pl_mapping_watch;

/* `watch` may be NULL. */
static inline void pl_mapping_tell(pl_mapping_watch *watch, int device, bool has_come,
                                   pleat_devptr base, uint64_t bytes)
{
    if (watch != NULL && atomic_load_explicit(&watch->n, memory_order_acquire) != 0) {
        watch->tell(watch, device, has_come, base, bytes);
    }
}

#endif
