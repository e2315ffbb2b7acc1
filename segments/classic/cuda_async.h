/* cuda_async.h - shared by the files of cuda-async: the driver's own stream-ordered pool behind the
 * allocator interface, used as by PyTorch's backend cudaMallocAsync.
 *
 *   alloc on a stream --> live --free--> the driver, in the order of its stream
 *                             \--free, when that cannot be done now--> held --> the driver
 *
 * The driver decides where memory lies, which memory is reused and which goes back to the device.
 * This allocator only knows the blocks and orders their frees. A block used by several streams is
 * freed on the pool's own stream, behind all of them. So no user stream waits for another user.
 *
 * A freed block is held in two cases:
 * - The graph will use the block: the block was allocated in a capture, or one of its streams is
 *   being captured at the free. The block is held until pl_allocator_ops.release_capture.
 * - One of the block's streams is out of reach: destroyed, another thread's default stream, or the
 *   legacy stream beside a capture. The block is held until the host has waited for the whole
 *   device. This happens before a request fails, in a trim that waits, and in destroy.
 *
 * The driver keeps a limit set after creation in steps of 32 MiB (vmm/async/async_pool.h). So a
 * request may be refused that would fit under the same limit set at creation. A request of a
 * captured stream is served outside the graph, on the pool's own stream, and the host waits for
 * that stream. PyTorch makes the request a node of the graph instead.
 *
 * The lock of the pl_cache guards all fields below, unless noted otherwise. Source:
 * c10/cuda/CUDAMallocAsyncAllocator.cpp of PyTorch (2026). */
#ifndef PLEAT_SEGMENTS_CLASSIC_CUDA_ASYNC_H
#define PLEAT_SEGMENTS_CLASSIC_CUDA_ASYNC_H

#include "segments/base/tree.h"
#include "segments/classic/cache.h"
#include "segments/classic/order.h"
#include "vmm/async/async_pool.h"

#define PL_ASYNC_ALIGN ((size_t)512) /* unit to which drivers round sizes up */

typedef struct pl_async_options {
    uint64_t release_threshold_bytes; /* how much the pool keeps; 0 = all */
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
    uint64_t lanes;    /* of all streams that used the block (order.h) */
    uint64_t captured; /* held: lanes with captures that hold it; 0 = held until a device wait */
    bool is_held;
    bool is_apart; /* allocated on the pool's own stream, since `stream` was being captured */
    pl_birth birth;
} pl_async_block;

/* I1  blocks of the tree do not overlap; the tree keeps its own rules
 * I2  the held list holds exactly the held blocks of the tree
 * I3  the statistics of allocated, active and requested count the blocks of the tree and the
 *     blocks on their way to the driver (n_freeing and so on) */
typedef struct pl_async {
    pl_cache base;       /* reserved_bytes, growing_bytes and releasing_bytes stay 0 */
    pl_async_pool *pool; /* const */
    pl_order order;
    pl_tree blocks; /* by address */
    pl_async_block *held;
    size_t n_held;
    uint64_t n_freeing, freeing_bytes, freeing_asked_bytes; /* live blocks that are leaving */
    uint64_t n_moving, moving_bytes, moving_asked_bytes;    /* held blocks that are leaving */
} pl_async;

static inline uint64_t pl_async_rounded(size_t bytes)
{
    return ((uint64_t)bytes + PL_ASYNC_ALIGN - 1) / PL_ASYNC_ALIGN * PL_ASYNC_ALIGN;
}

static inline void pl_async_tell(const pl_async *p, pl_action action, const pl_async_block *block)
{
    pl_tell(p->base.observer, action, block->ptr, block->bytes, block->stream, NULL);
}

/* Report each block as a separate segment, since the pool's segments are unknown. */
static inline void pl_async_tell_segment(const pl_async *p, pl_action action,
                                         const pl_async_block *block)
{
    pl_tell(p->base.observer, action, block->ptr, pl_async_rounded(block->bytes), NULL, NULL);
}

/* cuda_async_free.c. Lock held on entry and exit, dropped around driver calls. */
/* Free a live block; `stream` as in pl_allocator_ops.free. After a failure the block is live as
 * before. */
pleat_status pl_async_free(pl_async *p, pl_async_block *block, pl_stream *stream);
/* Free the blocks that are held by captures of this stream alone. After an error, such as EDRIVER,
 * the other blocks stay held. */
pleat_status pl_async_release(pl_async *p, pl_stream *stream);
/* Wait for the device and free the blocks that no capture holds. ECAPTURE: the host may not wait,
 * since a stream is being captured. */
pleat_status pl_async_synchronize(pl_async *p);
/* For destroy: wait for all streams and free every block, live or held. */
void pl_async_free_all(pl_async *p);
/* Bring the statistic of reserved bytes up to date with what the pool holds. */
void pl_async_note_reserved(pl_async *p);

#endif
