/* front.h - what a thread keeps in front of an allocator: small blocks that it freed, and that its
 * next requests get without a lock; and late blocks of any size, which it freed and which become
 * free memory in its next request, in one hold of the lock with that request.
 *
 * The owner of a front is a thread; the front is bound to one stream of one allocator. While it is
 * bound, the owner may call its `alloc` and `free`, between pl_front_enter and pl_front_leave, in
 * place of the allocator's: they succeed at once, or change nothing. The allocator, in a call of
 * any thread, stops fronts, empties them, and unbinds them where something is going on that every
 * call must notice. It costs the owner no locked instruction: who stops fronts makes all processors
 * finish their stores (barrier.h), and then waits until no owner is inside.
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
    PL_FRONT_UNIT = 512,      /* a magazine for each multiple of it, of requests rounded up */
    PL_FRONT_BINS = 256,      /* of magazines; no block is in the first */
    PL_FRONT_DEPTH = 8,       /* blocks in a magazine */
    PL_FRONT_BLOCKS = 128,    /* in a front */
    PL_FRONT_BYTES = 2 << 20, /* likewise */
    PL_FRONT_LATE = 8,        /* late blocks */
    PL_FRONT_MOST_BYTES = (PL_FRONT_BINS - 1) * PL_FRONT_UNIT, /* larger blocks never go in */
};

/* Blocks of one size, rounded to units, the last freed first. */
typedef struct pl_magazine {
    struct pl_block *top; /* linked by queue_next */
    uint8_t n;
    int8_t credit; /* it takes blocks while this is above 0: see front.c */
} pl_magazine;

typedef struct pl_late {
    struct pl_block *block;
    size_t at; /* where the allocator's map had it; it may have moved since */
} pl_late;

typedef struct pl_front {
    _Atomic uint32_t in_use;     /* atomic: by its owner */
    _Atomic uint32_t is_stopped; /* atomic: written under the allocator's lock */
    /* What it is bound to: how the owner's callers know it (0 = unbound), and the allocator's call.
     * Written by who unbinds it, with the front stopped, or by the owner. */
    _Atomic uint64_t key; /* atomic */
    const void *stream;   /* the handle */
    void *user;           /* the caller's */
    bool (*alloc)(struct pl_front *front, size_t bytes, pleat_devptr *out);
    bool (*free)(struct pl_front *front, pleat_devptr ptr);

    /* The allocator's; written with the front stopped, or by the owner inside. */
    struct pl_allocator *allocator;
    const void *owner; /* something of that thread alone */
    uint32_t lane;
    size_t most_bytes;       /* of a block */
    _Atomic uint32_t n_kept; /* atomic: blocks in it */
    size_t bytes;            /* of these, rounded */
    /* By how much its requests may raise the figures of live blocks before a peak is lifted. */
    _Atomic bool has_room; /* atomic: it got some since it was collected; else the next are 0 */
    int64_t room_n;
    int64_t room_bytes;
    int64_t room_requested;
    _Atomic uint64_t n_freed;    /* atomic: blocks freed into it since they were last counted; */
    uint64_t freed_bytes;        /* their bytes, rounded, */
    uint64_t freed_requested;    /* and as requested */
    struct pl_front *next;       /* the allocator's lock: its fronts */
    pl_late late[PL_FRONT_LATE]; /* a ring, the first freed first */
    unsigned first_late;
    _Atomic uint32_t n_late;             /* atomic */
    uint32_t n_counted;                  /* the allocator's lock: of these, counted as freed */
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
