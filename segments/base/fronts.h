/* fronts.h - a thread's own cache before an allocator (a "front"). The front keeps small blocks
 * that its thread freed, and gives them to the thread's next requests without a lock. The front
 * also keeps "late" blocks of any size: freed blocks that become free memory in the thread's next
 * request, in the same hold of the lock.
 *
 * A front is owned by one thread and bound to one stream of one allocator. While it is bound, the
 * owner may call the front's `alloc` and `free` instead of the allocator's, between pl_front_enter
 * and pl_front_leave. Both succeed at once or change nothing. The allocator may stop, empty and
 * unbind fronts in a call of any thread. The allocator unbinds fronts while an event is going on
 * that every call must notice. Stopping costs the owner no locked instruction. A thread that stops
 * fronts first makes all processors finish their stores (barrier.h), and then waits until no owner
 * is inside.
 *
 *   owner    in_use = 1;  if is_stopped: in_use = 0, and take the long way;  ...;  in_use = 0
 *   others   is_stopped = 1;  barrier;  wait for in_use == 0;  ...;  is_stopped = 0 */
#ifndef PLEAT_SEGMENTS_FRONT_H
#define PLEAT_SEGMENTS_FRONT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vmm/base/barrier.h"
#include "vmm/base/pleat_types.h"

struct pl_allocator;
struct pl_block;

enum {
    PL_FRONT_UNIT = 512,      /* requests are rounded up to units; one magazine per size */
    PL_FRONT_BINS = 256,      /* of magazines; no block is in the first */
    PL_FRONT_DEPTH = 8,       /* blocks in a magazine */
    PL_FRONT_BLOCKS = 128,    /* in a front */
    PL_FRONT_BYTES = 2 << 20, /* in a front */
    PL_FRONT_LATE = 8,        /* late blocks */
    PL_FRONT_MOST_BYTES = (PL_FRONT_BINS - 1) * PL_FRONT_UNIT, /* larger blocks never go in */
};

/* Freed blocks of one size, rounded to units, newest first. */
typedef struct pl_magazine {
    struct pl_block *top; /* linked by queue_next */
    uint8_t n;
    int8_t credit; /* the magazine takes blocks while this is above 0: see front.c */
} pl_magazine;

typedef struct pl_late {
    struct pl_block *block;
    size_t at; /* the block's slot in the allocator's map; may be outdated */
} pl_late;

typedef struct pl_front {
    _Atomic uint32_t in_use;     /* atomic: 1 while the owner is inside */
    _Atomic uint32_t is_stopped; /* atomic: written under the allocator's lock */
    /* How callers know the binding (0 = unbound), and the allocator's calls. Written by the owner,
     * or by the thread that unbinds the stopped front. */
    _Atomic uint64_t key; /* atomic */
    const void *stream;   /* the handle */
    void *user;           /* the caller's */
    bool (*alloc)(struct pl_front *front, size_t bytes, pleat_devptr *out);
    bool (*free)(struct pl_front *front, pleat_devptr ptr);

    /* The allocator's; written with the front stopped, or by the owner inside. */
    struct pl_allocator *allocator;
    const void *owner; /* unique to the owning thread */
    uint32_t lane;
    _Atomic uint32_t n_kept; /* atomic: blocks in the front */
    size_t bytes;            /* bytes of these blocks, rounded */
    /* By how much its requests may raise the figures of live blocks before a peak is lifted. */
    _Atomic bool has_room; /* atomic: room was given since the last collection */
    int64_t room_n;
    int64_t room_bytes;
    int64_t room_requested;
    _Atomic uint64_t n_freed;    /* atomic: blocks freed into the front since the last count; */
    uint64_t freed_bytes;        /* the bytes of these blocks, rounded, */
    uint64_t freed_requested;    /* and as requested */
    struct pl_front *next;       /* the allocator's lock: next in the allocator's list */
    pl_late late[PL_FRONT_LATE]; /* a ring, the first freed first */
    unsigned first_late;
    _Atomic uint32_t n_late;             /* atomic */
    uint32_t n_counted;                  /* the allocator's lock: late blocks counted as freed */
    uint64_t filled[PL_FRONT_BINS / 64]; /* magazines with blocks */
    pl_magazine magazines[PL_FRONT_BINS];
} pl_front;

/* The owner goes in. False: the front is stopped. */
static inline bool pl_front_enter(pl_front *front)
{
    atomic_store_explicit(&front->in_use, 1, memory_order_relaxed);
    pl_barrier_light();
    if (__builtin_expect(atomic_load_explicit(&front->is_stopped, memory_order_acquire) == 0, 1)) {
        return true;
    }
    atomic_store_explicit(&front->in_use, 0, memory_order_release);
    return false;
}

static inline void pl_front_leave(pl_front *front)
{
    atomic_store_explicit(&front->in_use, 0, memory_order_release);
}

#endif
