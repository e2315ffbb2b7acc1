/* observer.h - how an allocator reports its actions. Histories record these reports.
 *
 * An action is reported under the allocator's lock, when it takes effect. So the order of reports
 * is the order of state changes. Replaying the reports leads from any visit (allocator.h) to the
 * next. The actions on memory:
 *
 *   SEGMENT_ALLOC, SEGMENT_FREE   a segment of the driver's, whole (classic caches)
 *   SEGMENT_MAP, SEGMENT_UNMAP    addresses became resident, or a hole again. UNMAP is
 *                                 reported when a chunk is taken from its old place, though the
 *                                 stale mapping goes later
 *   ALLOC                         a block; bytes as requested
 *   FREE_REQUESTED                the same bytes; from now on the block is not the user's
 *   FREE_COMPLETED                all uses on other streams are over; without such uses right after
 *                                 FREE_REQUESTED
 *
 * The reports of a segment's blocks lie between the reports of the segment's start and end. Memory
 * freed by `destroy` is not reported. The names and their order are PyTorch's: TraceEntry of
 * c10/cuda/CUDACachingAllocator.h. */
#ifndef PLEAT_SEGMENTS_OBSERVER_H
#define PLEAT_SEGMENTS_OBSERVER_H

#include <stdatomic.h>

#include "vmm/base/pleat_types.h"
#include "vmm/streams/stream.h"

typedef enum pl_action {
    PL_ACTION_ALLOC,
    PL_ACTION_FREE_REQUESTED,
    PL_ACTION_FREE_COMPLETED,
    PL_ACTION_SEGMENT_ALLOC,
    PL_ACTION_SEGMENT_FREE,
    PL_ACTION_SEGMENT_MAP,
    PL_ACTION_SEGMENT_UNMAP,
    PL_N_ACTIONS
} pl_action;

typedef struct pl_event {
    pl_action action;
    pleat_devptr base;
    uint64_t bytes;
    pl_stream *stream;      /* a block's owner; a segment's owner, NULL if segments have none */
    const void *private_in; /* the pl_keeper of this memory; NULL = the default pool */
} pl_event;

/* An observer outlives its allocators (pl_allocator_options.observer). */
typedef struct pl_observer {
    /* Called under the allocator's lock: calls no allocator, does not block. */
    void (*tell)(struct pl_observer *self, const pl_event *event);
    _Atomic bool is_on; /* atomic: false = report nothing; may change at any time */
} pl_observer;

static inline bool pl_observer_is_on(const pl_observer *observer)
{
    return observer != NULL &&
           __builtin_expect(atomic_load_explicit(&observer->is_on, memory_order_relaxed), false);
}

/* `observer` may be NULL. */
static inline void pl_tell(pl_observer *observer, pl_action action, pleat_devptr base,
                           uint64_t bytes, pl_stream *stream, const void *private_in)
{
    if (pl_observer_is_on(observer)) {
        pl_event event = { action, base, bytes, stream, private_in };
        observer->tell(observer, &event);
    }
}

#endif
