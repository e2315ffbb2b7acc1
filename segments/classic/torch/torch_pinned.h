/* torch_pinned.h - PyTorch's cache of pinned host memory (CachingHostAllocator), as a baseline.
 *
 *   allocate   bytes up to a power of two -> the free block of that size that was freed last, or
 *              the driver
 *   free       no stream has used it: free at once
 *              else one fence a stream, behind all that wait: queue -> ... -> free
 *
 *   class 2^20 |-> block -> block        newest first
 *   queue      use -> use -> use         oldest first; a request polls it up to the first unready
 *
 * Nothing is split, merged, aged or given back. A request that the driver refuses fails. Only trim
 * empties the cache (torch._C._host_emptyCache). A fence that has not passed delays all fences
 * recorded later, on any stream. If a stream that used a block is being captured at the block's
 * free, the block never serves again, as in PyTorch.
 *
 * Differences from PyTorch:
 * - A limit of the instance counts as the size of the host.
 * - One lock guards all classes. So the figures are exact at any time.
 * - Private pools of captures are missing. Requests of pleat_host.h name the idle stream
 *   (vmm/idle.h), which is never captured.
 * - A block of any stream except the idle one counts as used by that stream.
 *
 * Only PyTorch's default options are modelled: no background thread (which would poll the same
 * queue), no cudaHostRegister, no reserved segment, no thresholds.
 *
 * All fields are guarded by the lock of the pl_cache.
 * Source: CachingHostAllocatorImpl in ATen/core of PyTorch 2.11. */
#ifndef PLEAT_SEGMENTS_CLASSIC_TORCH_PINNED_H
#define PLEAT_SEGMENTS_CLASSIC_TORCH_PINNED_H

#include "segments/base/tree.h"
#include "segments/classic/cache.h"

enum { PL_PINNED_CLASSES = 61 }; /* by log2 */

typedef struct pl_pinned_block pl_pinned_block;
typedef struct pl_pinned_use pl_pinned_use;

typedef enum pl_pinned_state {
    PL_PINNED_LIVE,
    PL_PINNED_FREEING, /* still live; free() is asking the driver with the lock dropped */
    PL_PINNED_PENDING, /* freed; n_pending fences have not passed */
    PL_PINNED_CACHED,  /* in the list of its class */
} pl_pinned_state;

struct pl_pinned_use {
    pl_pinned_use *next; /* the block's next use; then the queue's next */
    pl_pinned_block *block;
    pl_stream *stream;
    pl_fence *fence; /* NULL: not freed yet */
};

struct pl_pinned_block {
    pl_tree_node node; /* in by_address */
    pleat_devptr ptr;  /* const */
    unsigned class;    /* const: log2 of the block's bytes */
    pl_pinned_state state;
    size_t requested_bytes;
    pl_stream *stream;     /* the last owner */
    pl_pinned_block *next; /* cached: next in the class's list */
    pl_pinned_use *uses;   /* live: streams that used the block */
    unsigned n_pending;    /* pending: its fences, and streams being captured */
};

/* I1  by_address holds all blocks but those on their way to the driver
 * I2  a list holds cached blocks of its class only, and all of them
 * I3  a block is pending if and only if n_pending > 0; only live blocks have uses of their own
 * I4  the queue has n_queued uses, each with a fence and of a pending block
 * I5  reserved_bytes == bytes of all blocks + releasing_bytes, and the statistic agrees
 * I6  the statistics of live and active blocks, and pending_bytes, agree with the blocks
 * I7  the tree keeps its own rules */
typedef struct pl_pinned {
    pl_cache base;
    pl_tree by_address;
    pl_pinned_block *lists[PL_PINNED_CLASSES];
    pl_pinned_use *first; /* the queue */
    pl_pinned_use *last;
    size_t n_queued;
    bool is_polling; /* one thread at a time takes uses out of the queue */
    pl_cond polled;  /* broadcast when polling has ended */
    uint64_t pending_bytes;
} pl_pinned;

static inline pl_pinned *pl_pinned_of(pl_cache *c)
{
    return (pl_pinned *)(void *)c;
}

static inline size_t pl_pinned_bytes(const pl_pinned_block *b)
{
    return (size_t)1 << b->class;
}

static inline bool pl_pinned_is_live(const pl_pinned_block *b)
{
    return b->state == PL_PINNED_LIVE || b->state == PL_PINNED_FREEING;
}

/* torch_pinned_queue.c. Lock held, dropped around driver calls. */
/* Note that the stream uses a live block. ENOMEM_HOST. */
pleat_status pl_pinned_add_use(pl_pinned *p, pl_pinned_block *b, pl_stream *stream);
/* Free a live block. After an error of pl_fence_record the block is live as before. */
pleat_status pl_pinned_retire(pl_pinned *p, pl_pinned_block *b);
/* Free the blocks whose fences at the head of the queue have passed. `wait`: wait for all
 * fences. */
pleat_status pl_pinned_poll(pl_pinned *p, bool wait);
/* Free the host memory of all uses. */
void pl_pinned_drop_uses(pl_pinned *p);

/* torch_pinned_check.c */
void pl_pinned_tell_stats(pl_cache *c, pleat_stats *out);
void pl_pinned_visit(pl_cache *c, void (*see)(void *context, const pl_piece *piece), void *context);
int pl_pinned_check(pl_cache *c);

#endif
