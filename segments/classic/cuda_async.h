/* cuda_async.h - what the files of cuda-async share: the driver's own stream-ordered pool behind
 * the allocator interface, used as PyTorch's backend cudaMallocAsync uses it.
 *
 *   alloc on a stream --> live --free--> the driver, in the order of its stream
 *                             \--free, when that cannot be done now--> held --> the driver
 *
 * The driver decides where memory lies, what is reused and what goes back to the device; this
 * allocator knows its blocks and orders their frees. A block that several streams used is freed on
 * the pool's own stream, behind all of them, so that none of them waits for another.
 *
 * A freed block is held in two cases:
 * - It was allocated in a capture, or one of its streams is being captured when it is freed: the
 *   graph will use it. It is held until pl_allocator_ops.release_capture.
 * - One of its streams cannot be reached: a destroyed one, another thread's default stream, or the
 *   legacy stream beside a capture. It is held until the host has waited for the whole device,
 *   which it does before a request fails, in a trim that waits and in destroy.
 *
 * A limit that is set after creation is kept in the driver's steps of 32 MiB (vmm/async_pool.h), so
 * a request may be refused that the same limit at creation would allow. A request of a stream that
 * is being captured is served outside the graph, on the pool's own stream, for which the host
 * waits. PyTorch makes the request a node of the graph instead.
 *
 * All fields below are guarded by the lock of its pl_cache unless they say otherwise.
 * Source: c10/cuda/CUDAMallocAsyncAllocator.cpp of PyTorch (2026). */
#ifndef PLEAT_SEGMENTS_CLASSIC_CUDA_ASYNC_H
#define PLEAT_SEGMENTS_CLASSIC_CUDA_ASYNC_H

#include "segments/base/tree.h"
#include "segments/classic/cache.h"
#include "segments/classic/order.h"
#include "vmm/async_pool.h"

#define PL_ASYNC_ALIGN ((size_t)512) /* what drivers round sizes up to */

typedef struct pl_async_options {
    uint64_t release_threshold_bytes; /* what the pool keeps of the device; 0 = all */
} pl_async_options;

extern const pl_option_table pl_async_option_table;

static inline pl_async_options pl_async_own(const pl_allocator_options *options)
{
    pl_async_options own;
    pl_own_get(options, &pl_async_option_table, &own);
    return own;
}

typedef struct pl_async_block {
    pl_tree_node node;           /* in pl_async.blocks, live or held */
    struct pl_async_block *next; /* held: the next held block */
    pleat_devptr ptr;
    size_t bytes; /* as asked for */
    pl_stream *stream;
    uint64_t lanes;    /* of all streams that used it (order.h) */
    uint64_t captured; /* held: lanes whose captures hold it; 0 = a wait for the device ends it */
    bool is_held;
    bool is_apart; /* allocated on the pool's own stream, since `stream` was being captured */
    pl_birth birth;
} pl_async_block;

/* I1  blocks of the tree do not overlap; it keeps its own rules
 * I2  the held list holds exactly the held blocks of the tree
 * I3  the statistics of allocated, active and requested count the blocks of the tree and those on
 *     their way to the driver (n_freeing and so on) */
typedef struct pl_async {
    pl_cache base;       /* reserved_bytes, growing_bytes and releasing_bytes stay 0 */
    pl_async_pool *pool; /* const */
    pl_order order;
    pl_tree blocks; /* by address */
    pl_async_block *held;
    size_t n_held;
    uint64_t n_freeing, freeing_bytes, freeing_asked_bytes; /* live blocks on their way */
    uint64_t n_moving, moving_bytes, moving_asked_bytes;    /* held blocks on their way */
} pl_async;

static inline uint64_t pl_async_rounded(size_t bytes)
{
    return ((uint64_t)bytes + PL_ASYNC_ALIGN - 1) / PL_ASYNC_ALIGN * PL_ASYNC_ALIGN;
}

static inline void pl_async_tell(const pl_async *p, pl_action action, const pl_async_block *block)
{
    pl_tell(p->base.observer, action, block->ptr, block->bytes, block->stream, NULL);
}

/* Nobody can tell where the pool's segments lie, so each block is told as a segment of its own. */
static inline void pl_async_tell_segment(const pl_async *p, pl_action action,
                                         const pl_async_block *block)
{
    pl_tell(p->base.observer, action, block->ptr, pl_async_rounded(block->bytes), NULL, NULL);
}

/* cuda_async_free.c. Lock held on entry and exit, dropped around driver calls. */
/* Free a live block; `stream` as in pl_allocator_ops.free. A failure leaves it live. */
pleat_status pl_async_free(pl_async *p, pl_async_block *block, pl_stream *stream);
/* Free the blocks that only this stream's captures hold. EDRIVER and so on: the rest stays held. */
pleat_status pl_async_release(pl_async *p, pl_stream *stream);
/* Wait for the device and free the blocks that no capture holds. ECAPTURE: a stream is being
 * captured, so the host may not wait. */
pleat_status pl_async_synchronize(pl_async *p);
/* For destroy: wait for all streams and free every block, live or held. */
void pl_async_free_all(pl_async *p);
/* Bring the statistic of reserved bytes up to date with what the pool holds. */
void pl_async_note_reserved(pl_async *p);

#endif
