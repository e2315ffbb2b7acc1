/* torch_cache.h - shared by the files of PyTorch's caching allocators.
 *
 *   segment
 *   |## live ##|---- free ----|# live #|... pending ...|-- free --|
 *
 * Free blocks of the small and of the large pool are ordered by stream, size, age of the segment
 * and address. A request takes the first block that fits and splits it, or asks the driver for
 * memory. A freed block merges with free neighbours of its segment. Without collection by age,
 * requests give memory back to the driver only after an allocation failed. Then everything that can
 * go is given back. A pl_torch_source gets memory and gives it back. For torch-native
 * (torch_linear.c) the unit is a whole segment. For torch-expandable (torch_expand.c,
 * torch_unmap.c) the unit is a page under reserved addresses.
 *
 * Differences from PyTorch. Streams are ordered by first sight, not by handle. No choice depends on
 * the order, since blocks never change streams. The lock is dropped around every driver call, as
 * with release_lock_on_cudamalloc. Private pools are missing. A block freed during a capture is
 * reused like others. But recorded uses on a stream that is being captured at the free are held
 * until pl_allocator_ops.release_capture.
 *
 * The lock of the pl_cache guards all fields below, unless noted otherwise. Source:
 * c10/cuda/CUDACachingAllocator.cpp, c10/core/AllocatorConfig.h of PyTorch (2026). */
#ifndef PLEAT_SEGMENTS_CLASSIC_TORCH_CACHE_H
#define PLEAT_SEGMENTS_CLASSIC_TORCH_CACHE_H

#include "segments/base/rounding.h"
#include "segments/base/tree.h"
#include "segments/classic/cache.h"
#include "segments/classic/torch/torch_options.h"
#include "vmm/chunk.h"

#define PL_TORCH_MIN_BLOCK ((size_t)512)          /* kMinBlockSize */
#define PL_TORCH_SMALL ((size_t)1 << 20)          /* kSmallSize */
#define PL_TORCH_SMALL_SEGMENT ((size_t)2 << 20)  /* kSmallBuffer */
#define PL_TORCH_MIN_LARGE ((size_t)10 << 20)     /* kMinLargeAlloc */
#define PL_TORCH_LARGE_SEGMENT ((size_t)20 << 20) /* large_segment_size, the default */
#define PL_TORCH_ROUND_LARGE ((size_t)2 << 20)    /* kRoundLarge */

typedef struct pl_torch pl_torch;
typedef struct pl_torch_block pl_torch_block;
typedef struct pl_torch_segment pl_torch_segment;
typedef struct pl_torch_use pl_torch_use;
typedef struct pl_torch_source pl_torch_source;

typedef enum pl_torch_state {
    PL_TORCH_FREE,     /* in the pool's tree of free blocks */
    PL_TORCH_LIVE,     /* in the map */
    PL_TORCH_FREEING,  /* in the map; free() is recording fences with the lock dropped */
    PL_TORCH_PENDING,  /* freed, but with uses on other streams not known to be over */
    PL_TORCH_TAKEN,    /* in no tree, map or queue: a call is working on the block */
    PL_TORCH_UNMAPPED, /* addresses without memory, in the pool's tree of unmapped blocks */
    PL_TORCH_LOST,     /* perhaps mapped, perhaps not, after an undo failed: never used again */
} pl_torch_state;

/* Chunks of one page that the driver refused to take back. They are offered to the driver again
 * later. */
typedef struct pl_torch_refused {
    pl_chunk *chunks;
    size_t n;
    size_t room;
    size_t n_promised; /* promised for pages that are on their way to the driver */
} pl_torch_refused;

typedef struct pl_torch_pool {
    pl_tree free;        /* blocks by stream, size, counter, address */
    pl_tree unmapped;    /* blocks by stream, address */
    uint64_t n_searches; /* get_free_blocks_call_count: the clock of garbage collection */
    unsigned index;      /* const: PLEAT_SIZES_SMALL or PLEAT_SIZES_LARGE */
    size_t page_bytes;   /* const; 0 without pages */
    pl_torch_refused refused;
} pl_torch_pool;

struct pl_torch_segment {
    pl_tree_node node; /* in pl_torch.segments, by address */
    pleat_devptr ptr;  /* const */
    size_t bytes;      /* const: with pages, of the reserved addresses */
    pl_torch_block *first;
    pl_chunk *pages; /* by index, up to n_pages; 0 = not mapped. NULL without pages */
    size_t n_pages;
};

struct pl_torch_block {
    pl_tree_node node; /* in a tree of its pool if free or unmapped; in pl_torch.live if live */
    unsigned stream_index;
    pl_torch_state state;
    bool is_mapped; /* const without pages: true */
    size_t bytes;
    uint64_t counter; /* numbers the segments in the order of their creation */
    pleat_devptr ptr;
    pl_torch_block *prev; /* neighbours in the segment */
    pl_torch_block *next;
    pl_torch_pool *pool;
    pl_torch_segment *segment;
    pl_stream *stream;
    size_t requested_bytes;
    pl_torch_use *uses;        /* recorded streams; empty unless LIVE or FREEING */
    unsigned n_pending;        /* uses that wait in a queue or for a capture's end */
    uint64_t born;             /* n_searches when the block became free (gc_count_base) */
    pl_torch_block *departing; /* the next block on the way to the driver */
};

/* One stream's use of one block, from record_stream until the fence has passed. */
struct pl_torch_use {
    pl_torch_use *next;
    pl_torch_block *block;
    pl_stream *stream;
    pl_fence *fence; /* NULL while the block lives, and while a capture holds the use */
};

typedef struct pl_torch_queue {
    pl_torch_use *first; /* oldest */
    pl_torch_use *last;
} pl_torch_queue;

typedef struct pl_torch_request {
    pl_stream *stream;
    size_t bytes;         /* as asked */
    size_t rounded_bytes; /* as a block */
    size_t segment_bytes; /* size of a segment for the request, if one is needed */
    pl_torch_pool *pool;
} pl_torch_request;

/* Where memory comes from. Lock held on entry and exit, dropped around driver calls. */
struct pl_torch_source {
    /* Ask the driver for what the request needs. *out is a taken block, in no index, at least as
     * big as the request. */
    pleat_status (*grow)(pl_torch *t, const pl_torch_request *r, pl_torch_block **out);
    /* Collect by age: give back the oldest cached memory, as much as the threshold demands. */
    pleat_status (*collect)(pl_torch *t);
    /* With a split limit: give back oversize blocks. *enough: these blocks add up to the
     * request. */
    pleat_status (*release_oversize)(pl_torch *t, const pl_torch_request *r, bool *enough);
    /* Give free memory back, large pool first, while more than keep_bytes are reserved. */
    pleat_status (*release)(pl_torch *t, uint64_t keep_bytes, uint64_t *released);
    /* For destroy. `end_segment` gives back a segment that has left the tree, with live blocks or
     * not. `end` gives back memory outside segments; NULL if there is none. Both return how many
     * objects the driver refused. */
    size_t (*end_segment)(pl_torch *t, pl_torch_segment *segment);
    size_t (*end)(pl_torch *t);
    bool has_pages;
};

/* I1  every segment's blocks tile it in address order, linked both ways; sizes are multiples of 512
 * I2  no two neighbouring blocks of a segment are both free, or both unmapped
 * I3  a block is in its pool's tree if and only if it is free, or unmapped
 * I4  the tree of live blocks holds exactly the live and the freeing blocks
 * I5  n_pending of a pending block counts its uses in queues and in `held`; other blocks have none
 * I6  reserved_bytes == bytes of all segments + releasing_bytes; with pages, bytes of all mapped
 *     blocks + refused chunks; and the statistic agrees
 * I7  the statistics of allocated, active, inactive split and requested agree with the blocks
 * I8  trees keep their own rules
 * I9  with pages: an unmapped block is whole pages without chunks; under every other block, except
 *     one that is just being mapped, each page has a chunk */
struct pl_torch {
    pl_cache base; /* reserved_bytes: total_allocated_memory; waiter.changed: also tells the end of
                    * polling */
    pl_torch_options options;                   /* const: settled */
    unsigned roundup_divisions[PL_N_DIVISIONS]; /* const */
    const pl_torch_source *source;              /* const */
    bool has_pages;                             /* const: torch-expandable */
    uint64_t fraction_bytes;            /* const: limit by per_process_memory_fraction; 0 = none */
    pl_torch_pool pools[PLEAT_N_SIZES]; /* [PLEAT_SIZES_ALL] is unused */
    pl_tree segments;                   /* by address */
    pl_tree live;                       /* live and freeing blocks, by address */
    uint64_t next_counter;
    pl_torch_queue *queues; /* by stream index */
    unsigned n_queues;
    pl_torch_use *held;  /* uses by streams that were being captured at their block's free */
    size_t n_queued;     /* uses in queues */
    size_t n_moving;     /* uses on their way from held to a queue */
    uint64_t lost_bytes; /* in reserved_bytes, under lost blocks */
    bool is_polling;     /* a thread pops fences */
};

static inline pl_torch *pl_torch_of(pl_allocator *a)
{
    return (pl_torch *)(void *)a;
}

static inline bool pl_torch_is_split(const pl_torch_block *block)
{
    return block->prev || block->next;
}

/* Tell the observer what happened to the first `bytes` of `block`. Lock held. */
static inline void pl_torch_tell(const pl_torch *t, pl_action action, const pl_torch_block *block,
                                 size_t bytes)
{
    pl_tell(t->base.observer, action, block->ptr, bytes, block->stream, NULL);
}

/* torch_pool.c: the free blocks. No driver calls; all with the lock held. */
void pl_torch_pools_init(pl_torch *t);
pl_torch_request pl_torch_request_of(pl_torch *t, size_t bytes, pl_stream *stream);
/* the block stays in its pool */
/* The live or freeing block that begins at ptr, or NULL. */
pl_torch_block *pl_torch_live_at(const pl_torch *t, pleat_devptr ptr);
pl_torch_block *pl_torch_find_free(pl_torch *t, const pl_torch_request *r);
bool pl_torch_should_split(const pl_torch *t, const pl_torch_block *block, size_t rounded_bytes);
/* Make `block`, free or taken, live for the request. For a split, `spare` becomes the first, live
 * part. Without a split, `spare` must be NULL. The map must have room. Returns the live block. */
pl_torch_block *pl_torch_hand_out(pl_torch *t, pl_torch_block *block, pl_torch_block *spare,
                                  const pl_torch_request *r);
void pl_torch_take_out(pl_torch *t, pl_torch_block *block); /* free, unmapped -> taken */
void pl_torch_put_back(pl_torch *t, pl_torch_block *block); /* the reverse, by is_mapped */
/* Cut the first `bytes` off a taken block; `low` becomes that part, taken too. */
void pl_torch_cut(pl_torch_block *block, pl_torch_block *low, size_t bytes);
/* A taken block absorbs its free neighbours; an unmapped one absorbs its unmapped neighbours. */
void pl_torch_merge(pl_torch *t, pl_torch_block *block);
/* A taken block absorbs the next block, which is also taken. Either both are mapped, or neither
 * is. */
void pl_torch_absorb_next(pl_torch *t, pl_torch_block *block);
/* After a taken block's uses: merge the block and return it to its pool (free_block). */
void pl_torch_recycle(pl_torch *t, pl_torch_block *block);
/* For destroy: free the host memory of a segment and its blocks, live ones included. */
void pl_torch_forget_segment(pl_torch *t, pl_torch_segment *segment);

/* torch_options.c */
uint64_t pl_torch_limit(const pl_torch *t); /* allowed_memory_maximum: the lower limit; 0 = none */

/* Is garbage collection by age on? */
static inline bool pl_torch_collects(const pl_torch *t)
{
    return t->options.garbage_collection_threshold > 0 && pl_torch_limit(t) != 0;
}

/* torch_grow.c: the steps of a request that no cached block serves. Lock as in pl_torch_source. */
pleat_status pl_torch_grow(pl_torch *t, const pl_torch_request *r, pl_torch_block **out);
/* Wait for pending uses if `wait`. Then give free memory back while more than keep_bytes are
 * reserved (release_cached_blocks). EDRIVER: some memory could not be given back and stays
 * cached. */
pleat_status pl_torch_release_cached(pl_torch *t, uint64_t keep_bytes, bool wait,
                                     uint64_t *released);
/* Wait on the host for the streams' work, as far as that is possible. */
void pl_torch_wait_for_streams(pl_torch *t);

/* torch_refused.c: chunks that the driver may refuse to take back. Promise room for `n` chunks
 * before the lock is dropped (ENOMEM_HOST); note the refused chunks afterwards. */
pleat_status pl_torch_promise_refused(pl_torch *t, pl_torch_pool *pool, size_t n);
void pl_torch_note_refused(pl_torch *t, pl_torch_pool *pool, size_t n_promised,
                           const pl_chunk *chunks, size_t n);
/* Without the lock: give n chunks back. Returns how many were refused, and moves the refused ones
 * to the front of `chunks`. */
size_t pl_torch_release_chunks(pl_torch *t, pl_chunk *chunks, size_t n, size_t page_bytes);

extern const pl_torch_source pl_torch_linear; /* torch_linear.c: one cuMemAlloc per segment */
/* torch_expand.c: pages mapped under reserved addresses. */
pleat_status pl_torch_pages_grow(pl_torch *t, const pl_torch_request *r, pl_torch_block **out);
/* torch_unmap.c */
extern const pl_torch_source pl_torch_pages;

/* torch_event.c: uses by other streams. Lock held, dropped around driver calls. */
/* Record a use. *added is false if the stream is the owner or recorded already. PLEAT_OK;
 * ENOMEM_HOST. */
pleat_status pl_torch_add_use(pl_torch *t, pl_torch_block *block, pl_stream *stream, bool *added);
void pl_torch_drop_newest_use(pl_torch *t, pl_torch_block *block);
/* Record a fence for every use of a FREEING block and queue them. EDRIVER, ENOMEM_HOST: nothing
 * was queued. */
pleat_status pl_torch_queue_uses(pl_torch *t, pl_torch_block *block);
void pl_torch_poll(pl_torch *t);              /* process_events */
pleat_status pl_torch_wait_uses(pl_torch *t); /* synchronize_and_free_events, uncounted */
pleat_status pl_torch_release_held(pl_torch *t, pl_stream *stream);
void pl_torch_drop_uses(pl_torch *t); /* for destroy: forget all uses without waiting */

int pl_torch_check(pl_cache *c); /* torch_check.c: for pl_cache_kind */

#endif
