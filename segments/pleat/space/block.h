/* block.h - pieces of a segment, and the store they come from. */
#ifndef PLEAT_SEGMENTS_BLOCK_H
#define PLEAT_SEGMENTS_BLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "segments/base/index.h"
#include "vmm/base/assert.h"
#include "vmm/base/meta.h"
#include "vmm/base/pleat_types.h"

struct pl_segment;

typedef enum pl_block_state {
    PL_BLOCK_LIVE,     /* a user has it */
    PL_BLOCK_SHARED,   /* freed, but further streams, or a graph, may still use it */
    PL_BLOCK_FREE,     /* resident; settled or pending: see `lane` */
    PL_BLOCK_HOLE,     /* not resident; whole granules */
    PL_BLOCK_FLIGHT,   /* reserved by a request in flight: in no index, merges with nothing */
    PL_BLOCK_STALE,    /* whole granules, mapped, though the memory is elsewhere: see stale.c */
    PL_BLOCK_CAPTURED, /* freed, but allocated or freed in a capture whose graph may live */
} pl_block_state;
enum { PL_N_BLOCK_STATES = PL_BLOCK_CAPTURED + 1 };

/* In place of a lane's number: a free block is settled, a use is the whole context's. */
enum { PL_LANE_SETTLED = 0, PL_LANE_CONTEXT = 0 };

/* A use besides the owner's, which the block waits for once freed: by a stream, by the whole
 * context, or by a capture. See shared.h. */
typedef struct pl_block_use {
    uint64_t stamp;             /* freed: which the lane, or the context, must pass */
    struct pl_capture *capture; /* must be over before the stamp counts; NULL = none */
    uint32_t lane;              /* PL_LANE_CONTEXT: all streams */
    bool is_captured;           /* the block was allocated or freed in the capture itself */
} pl_block_use;

/* Many uses are sorted, uses without a capture first: see shared.h. */
typedef struct pl_block_uses {
    uint32_t n;
    uint32_t room;
    uint32_t n_plain;               /* sorted: uses without a capture */
    uint32_t n_late;                /* freed: uses [n_plain, n_late) are not demands yet */
    uint64_t freed_at;              /* newest stamp at the free: no late use needs a later one */
    uint64_t owner_stamp;           /* freed: of the owner's last use */
    bool is_sorted;                 /* uses without a capture come first */
    const struct pl_capture *birth; /* live: capture of the allocation; a use holds it */
    pl_block_use use[];             /* `room` of them */
} pl_block_uses;

/* A block fills two cache lines. Fields that neighbours ask for are in the second. */
typedef struct pl_block {
    union {
        pl_index_node node; /* free and indexed; first member, as an index returns nodes */
        size_t requested;   /* live, shared, captured: bytes asked for */
    };
    union {
        struct pl_block *queue_prev; /* neighbours in the block's queue */
        bool is_claimed; /* live, or in flight: a restore is about to free it (checkpoint.h) */
    };
    struct pl_block *queue_next;

    pleat_devptr base;
    size_t bytes;
    struct pl_block *prev; /* neighbours in address, NULL at the segment's ends */
    struct pl_block *next;
    struct pl_segment *segment;
    union {
        uint64_t stamp;   /* free, stale, shared, captured: what the block waits for (clock.h);
                           * live, of a second lane: number of the allocation's capture */
        uint64_t n_given; /* a hole in flight: leading granules that have a chunk */
    };
    pl_block_uses *uses; /* live, shared or captured; NULL = none */
    uint32_t lane;   /* free, flight, stale: pends on this lane; live, shared, captured: owner */
    uint8_t state;   /* pl_block_state */
    uint8_t was;     /* flight: the state to return to */
    bool is_indexed; /* free: settled, or the leader of its lane's run: see run.h */
    union {
        struct {
            bool is_private : 1; /* shared, captured: became so in a private pool; pending: all
                                  * owned */
            bool is_apart : 1;   /* pending: the run is in the area's index, not in the lane's:
                                  * area.h */
            bool is_strange : 1; /* in a private pool: not settled since others used it: see
                                  * restore.c */
            bool is_refused : 1; /* stale: the driver refused to unmap it, and nobody knows which
                                  * part of it is mapped */
        };
        uint8_t marks; /* all of them */
    };
} pl_block;

/* Prefetch the part of the block at that offset of pl_block; NULL = no block. */
static inline void pl_block_expect(const pl_block *b, size_t offset)
{
    __builtin_prefetch((const void *)((uintptr_t)b + offset));
}

/* A list of blocks through queue_prev and queue_next. */
typedef struct pl_block_queue {
    pl_block *first;
    pl_block *last;
} pl_block_queue;

static inline pleat_devptr pl_block_end(const pl_block *b)
{
    return b->base + b->bytes;
}

static inline void pl_queue_push(pl_block_queue *queue, pl_block *b)
{
    b->queue_prev = queue->last;
    b->queue_next = NULL;
    *(queue->last != NULL ? &queue->last->queue_next : &queue->first) = b;
    queue->last = b;
}

static inline void pl_queue_remove(pl_block_queue *queue, pl_block *b)
{
    *(b->queue_prev != NULL ? &b->queue_prev->queue_next : &queue->first) = b->queue_next;
    *(b->queue_next != NULL ? &b->queue_next->queue_prev : &queue->last) = b->queue_prev;
    b->queue_prev = NULL;
    b->queue_next = NULL;
}

/* Move b, which is in the queue, to the queue's end. */
static inline void pl_queue_renew(pl_block_queue *queue, pl_block *b)
{
    pl_block *next = b->queue_next;

    if (next == NULL) {
        return;
    }
    next->queue_prev = b->queue_prev;
    if (__builtin_expect(b->queue_prev != NULL, true)) {
        b->queue_prev->queue_next = next;
    } else {
        queue->first = next;
    }
    b->queue_prev = queue->last;
    b->queue_next = NULL;
    queue->last->queue_next = b;
    queue->last = b;
}

static inline void pl_queue_push_first(pl_block_queue *queue, pl_block *b)
{
    b->queue_prev = NULL;
    b->queue_next = queue->first;
    *(queue->first != NULL ? &queue->first->queue_prev : &queue->last) = b;
    queue->first = b;
}

/* `heir`, in no queue, stands where b stood. */
static inline void pl_queue_replace(pl_block_queue *queue, pl_block *b, pl_block *heir)
{
    heir->queue_prev = b->queue_prev;
    heir->queue_next = b->queue_next;
    *(heir->queue_prev != NULL ? &heir->queue_prev->queue_next : &queue->first) = heir;
    *(heir->queue_next != NULL ? &heir->queue_next->queue_prev : &queue->last) = heir;
    b->queue_prev = NULL;
    b->queue_next = NULL;
}

/* Counts over all segments, kept by segment.c and loose.c, so that statistics look at no block and
 * at no granule. */
typedef struct pl_tally {
    size_t n_blocks[PL_N_BLOCK_STATES]; /* except live ones */
    size_t bytes[PL_N_BLOCK_STATES];    /* likewise */
    size_t n_live_granules;             /* with a byte of a live block */
    size_t
        n_shared_granules;  /* with shared bytes of no private pool, and no live or captured byte */
    size_t n_tied_granules; /* vacant, but not loose */
    size_t n_live_asleep;   /* live granules without a chunk (sleep.h) */
    size_t n_shared_asleep; /* shared granules without a chunk */
} pl_tally;

/* The store of blocks. Blocks are carved from slabs singly, since carving a whole slab at once
 * would touch all of its memory. Blocks that come back are used again. A slab that is carved whole
 * can go into a huge page: of 65,536 blocks few have their page in the processor's cache of page
 * tables. The store gives no memory back before fini. */
typedef struct pl_block_store {
    pl_meta *meta;   /* const */
    pl_block *spare; /* blocks that came back, linked by `next` */
    size_t n_spare;  /* blocks in `spare`, and blocks not carved yet */
    struct pl_block_slab *slabs;
    struct pl_block_slab *newest;
    struct pl_block_slab *carved;      /* the slab being carved; later slabs are untouched */
    struct pl_block_slab *small_paged; /* the first slab still in small pages */
    size_t n_carved;                   /* blocks of `carved` carved so far */
    pl_tally tally;                    /* of the blocks in segments */
} pl_block_store;

void pl_block_store_init(pl_block_store *store, pl_meta *meta);
void pl_block_store_fini(pl_block_store *store);
pleat_status pl_block_store_grow(pl_block_store *store, size_t n);
/* Have at least n spare blocks. PLEAT_OK or ENOMEM_HOST. */
static inline pleat_status pl_block_store_reserve(pl_block_store *store, size_t n)
{
    return store->n_spare >= n ? PLEAT_OK : pl_block_store_grow(store, n);
}
/* Set n blocks aside in the list *aside, linked by `next`: others reserve and use spares while the
 * lock is dropped. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_block_store_set_aside(pl_block_store *store, size_t n, pl_block **aside);
/* At most n of these become spares again. */
void pl_block_store_put_back(pl_block_store *store, size_t n, pl_block **aside);
/* A slab that has just been carved whole, or NULL: for pl_block_slab_merge, without the lock. */
struct pl_block_slab *pl_block_store_take_full(pl_block_store *store);
void pl_block_slab_merge(struct pl_block_slab *slab); /* NULL is fine */
/* A block that was never used. */
pl_block *pl_block_store_carve(pl_block_store *store);
/* Cannot fail after a reserve. The block is zeroed except for `node`. */
static inline pl_block *pl_block_store_get(pl_block_store *store)
{
    pl_block *b = store->spare;

    pl_assert(store->n_spare > 0);
    store->n_spare--;
    if (b != NULL) {
        store->spare = b->next;
    } else {
        b = pl_block_store_carve(store);
    }
    b->next = NULL;
    b->prev = NULL;
    b->queue_prev = NULL;
    b->queue_next = NULL;
    b->uses = NULL;
    b->stamp = 0;
    b->was = PL_BLOCK_LIVE;
    b->is_indexed = false;
    b->marks = 0;
#if PLEAT_DEBUG_LEVEL >= 1
    b->requested = SIZE_MAX; /* shows a read before the first write */
#endif
    return b;
}
static inline void pl_block_store_put(pl_block_store *store, pl_block *b)
{
    b->next = store->spare;
    store->spare = b;
    store->n_spare++;
}

#endif
