/* cuda_async_free.c - how blocks go back to the driver: in order, held, or at the end.
 *
 * A block on its way to the driver is not in the tree. Once the driver has the block, another
 * thread's next block may get the address. Its share of the statistics is subtracted after the
 * driver has taken the block. Until then the walker finds the share in the counters of blocks on
 * their way. Guarded by the allocator's lock, which is dropped around driver calls. Source:
 * c10/cuda/CUDAMallocAsyncAllocator.cpp: free_impl, sync_raw. */
#include "segments/classic/cuda_async.h"

/* The result of an attempt to free a block. */
typedef enum outcome {
    GONE,
    LATER, /* not before the host has waited, or before a capture is gone */
    FAILED
} outcome;

void pl_async_note_reserved(pl_async *p)
{
    pl_lock_assert(&p->base.lock);
    uint64_t now = pl_async_pool_held_bytes(p->pool);
    uint64_t before = p->base.stats.reserved_bytes[PLEAT_SIZES_ALL].current;
    if (now > before) {
        pl_stats_add(p->base.stats.reserved_bytes, PLEAT_SIZES_LARGE, now - before);
    } else {
        pl_stats_sub(p->base.stats.reserved_bytes, PLEAT_SIZES_LARGE, before - now);
    }
}

/* ---- one block ------------------------------------------------------------------------------- */

/* Make the pool's own stream wait for `stream`. LATER: not possible now. */
static outcome gather_one(pl_stream *own, pl_stream *stream, pleat_status *st)
{
    pl_fence *fence = NULL;
    if (stream == own) {
        return GONE;
    }
    *st = pl_fence_record(stream, &fence);
    if (*st == PLEAT_ECAPTURE) {
        return LATER;
    }
    if (*st != PLEAT_OK) {
        return FAILED;
    }
    bool is_out_of_reach = pl_fence_is_whole_device(fence);
    *st = is_out_of_reach ? PLEAT_OK : pl_fence_order(own, fence);
    pl_fence_return(fence);
    if (*st != PLEAT_OK) {
        return FAILED;
    }
    return is_out_of_reach ? LATER : GONE;
}

static bool is_in(uint64_t lanes, const pl_stream *stream)
{
    return (lanes & pl_order_lane(stream)) != 0;
}

/* Free the block behind all work of its streams. Without the lock. */
static outcome free_behind_all(pl_async *p, const pl_async_block *block, pleat_status *st)
{
    pl_stream *own = NULL;
    outcome became = GONE;
    *st = pl_async_pool_own_stream(p->pool, &own);
    if (*st != PLEAT_OK) {
        return FAILED;
    }
    unsigned n_streams = pl_stream_count(p->base.dev);
    for (unsigned i = 0; became == GONE && i < n_streams; i++) {
        pl_stream *stream = pl_stream_at(p->base.dev, i);
        if (is_in(block->lanes, stream)) {
            became = gather_one(own, stream, st);
        }
    }
    if (became == GONE) {
        *st = pl_async_pool_free(p->pool, block->ptr, block->bytes, own);
        became = *st == PLEAT_OK ? GONE : FAILED;
    }
    return became;
}

/* Free a block that no other stream used. */
static outcome free_in_order(pl_async *p, const pl_async_block *block, pleat_status *st)
{
    *st = pl_async_pool_free(p->pool, block->ptr, block->bytes, block->stream);
    if (*st == PLEAT_ECAPTURE || *st == PLEAT_ESTREAM) {
        return LATER;
    }
    return *st == PLEAT_OK ? GONE : FAILED;
}

/* Try to free a block on its way to the driver; set block->captured to the holding lanes. */
static outcome try_free(pl_async *p, pl_async_block *block, pleat_status *st)
{
    uint64_t own_lane = pl_order_lane(block->stream);
    bool is_plain = block->lanes == own_lane && !block->is_apart &&
                    pl_stream_index(block->stream) < PL_ORDER_CROWD;
    block->captured = pl_order_born_in(&p->order, block->birth);
    if (block->captured != 0) {
        return LATER;
    }
    if (!is_plain) {
        *st = pl_order_captured(&p->order, block->lanes, &block->captured);
        if (*st != PLEAT_OK || block->captured != 0) {
            return *st == PLEAT_OK ? LATER : FAILED;
        }
    }
    pl_lock_release(&p->base.lock);
    outcome became = is_plain ? free_in_order(p, block, st) : free_behind_all(p, block, st);
    pl_lock_acquire(&p->base.lock);
    if (*st == PLEAT_ECAPTURE && is_plain && !pl_stream_is_legacy(block->stream)) {
        /* Do not ask the stream again: the capture may be over, but its graph may remain. */
        block->captured = own_lane;
    }
    return became;
}

/* ---- what is told ---------------------------------------------------------------------------- */

static void end_live(pl_async *p, const pl_async_block *block)
{
    uint64_t rounded = pl_async_rounded(block->bytes);
    unsigned pool = pl_stats_pool(rounded);
    pl_stats_sub(p->base.stats.allocation, pool, 1);
    pl_stats_sub(p->base.stats.allocated_bytes, pool, rounded);
    p->base.stats.rounding_bytes -= rounded - block->bytes;
}

static void end_active(pl_async *p, const pl_async_block *block)
{
    uint64_t rounded = pl_async_rounded(block->bytes);
    unsigned pool = pl_stats_pool(rounded);
    pl_stats_sub(p->base.stats.active, pool, 1);
    pl_stats_sub(p->base.stats.active_bytes, pool, rounded);
    pl_stats_sub(p->base.stats.requested_bytes, pool, block->bytes);
}

/* Report the free before the driver has the block, since another block may get the address right
 * after. A block that does not go is reported as allocated again. */
static void tell_gone(const pl_async *p, const pl_async_block *block)
{
    pl_async_tell(p, PL_ACTION_FREE_COMPLETED, block);
    pl_async_tell_segment(p, PL_ACTION_SEGMENT_FREE, block);
}

static void tell_back(const pl_async *p, const pl_async_block *block)
{
    pl_async_tell_segment(p, PL_ACTION_SEGMENT_ALLOC, block);
    pl_async_tell(p, PL_ACTION_ALLOC, block);
}

static void hold(pl_async *p, pl_async_block *block)
{
    block->is_held = true;
    block->next = p->held;
    p->held = block;
    p->n_held++;
    pl_tree_insert(&p->blocks, &block->node);
    tell_back(p, block);
    pl_async_tell(p, PL_ACTION_FREE_REQUESTED, block);
}

pleat_status pl_async_free(pl_async *p, pl_async_block *block, pl_stream *stream)
{
    pl_lock_assert(&p->base.lock);
    uint64_t rounded = pl_async_rounded(block->bytes);
    uint64_t lanes = block->lanes;
    pleat_status st = PLEAT_OK;
    block->lanes |= stream ? pl_order_lane(stream) : 0;
    pl_tree_remove(&p->blocks, &block->node);
    pl_async_tell(p, PL_ACTION_FREE_REQUESTED, block);
    tell_gone(p, block);
    p->n_freeing++;
    p->freeing_bytes += rounded;
    p->freeing_asked_bytes += block->bytes;
    outcome became = try_free(p, block, &st);
    p->n_freeing--;
    p->freeing_bytes -= rounded;
    p->freeing_asked_bytes -= block->bytes;
    if (became == FAILED) {
        block->lanes = lanes;
        pl_tree_insert(&p->blocks, &block->node);
        tell_back(p, block);
        return st;
    }
    end_live(p, block);
    if (became == LATER) {
        hold(p, block);
        return PLEAT_OK;
    }
    end_active(p, block);
    pl_async_note_reserved(p);
    pl_meta_free(&p->base.meta, block);
    return PLEAT_OK;
}

/* ---- held blocks ----------------------------------------------------------------------------- */

/* Take a held block out of list and tree. */
static void take_held(pl_async *p, pl_async_block **link)
{
    pl_async_block *block = *link;
    *link = block->next;
    block->is_held = false;
    pl_tree_remove(&p->blocks, &block->node);
    tell_gone(p, block);
    p->n_held--;
    p->n_moving++;
    p->moving_bytes += pl_async_rounded(block->bytes);
    p->moving_asked_bytes += block->bytes;
}

/* End the way of a held block: gone, or held as before. */
static void land(pl_async *p, pl_async_block *block, bool is_gone)
{
    p->n_moving--;
    p->moving_bytes -= pl_async_rounded(block->bytes);
    p->moving_asked_bytes -= block->bytes;
    if (!is_gone) {
        hold(p, block);
        return;
    }
    end_active(p, block);
    pl_meta_free(&p->base.meta, block);
}

/* Take out the blocks that are held by captures of this lane alone. */
static pl_async_block *take_released(pl_async *p, uint64_t lane)
{
    pl_async_block *released = NULL;
    for (pl_async_block **link = &p->held; *link;) {
        pl_async_block *block = *link;
        bool is_last = block->captured != 0 && (block->captured & ~lane) == 0;
        if (!is_last) {
            block->captured &= ~lane;
            link = &block->next;
            continue;
        }
        take_held(p, link);
        block->next = released;
        released = block;
    }
    return released;
}

/* Each block is tried once. If a new capture holds the block, it is held again. */
pleat_status pl_async_release(pl_async *p, pl_stream *stream)
{
    pl_lock_assert(&p->base.lock);
    uint64_t lane = pl_order_release(&p->order, stream);
    pl_async_block *released = take_released(p, lane);
    pleat_status first = PLEAT_OK;
    while (released) {
        pl_async_block *block = released;
        pleat_status st = PLEAT_OK;
        released = block->next;
        outcome became = try_free(p, block, &st);
        if (became == FAILED) {
            block->captured = lane; /* makes the next release try again */
            first = first == PLEAT_OK ? st : first;
        }
        land(p, block, became == GONE);
    }
    pl_async_note_reserved(p);
    return first;
}

static uint64_t all_lanes(const pl_async *p)
{
    unsigned n = pl_stream_count(p->base.dev);
    return n >= PL_ORDER_LANES ? UINT64_MAX : (UINT64_C(1) << n) - 1;
}

/* Free the block on the pool's own stream. Lock dropped meanwhile. */
static pleat_status free_on_own(pl_async *p, const pl_async_block *block)
{
    pl_stream *own = NULL;
    pl_lock_release(&p->base.lock);
    pleat_status st = pl_async_pool_own_stream(p->pool, &own);
    if (st == PLEAT_OK) {
        st = pl_async_pool_free(p->pool, block->ptr, block->bytes, own);
    }
    pl_lock_acquire(&p->base.lock);
    return st;
}

/* Wait for the frees on the pool's own stream. Their memory may leave the pool afterwards. */
static pleat_status wait_for_own(pl_async *p)
{
    pl_stream *own = NULL;
    pl_lock_release(&p->base.lock);
    pleat_status st = pl_async_pool_own_stream(p->pool, &own);
    if (st == PLEAT_OK) {
        st = pl_stream_synchronize(own);
    }
    pl_lock_acquire(&p->base.lock);
    return st;
}

/* Free blocks that no capture held. The host has waited for the device since their frees. */
static pleat_status free_waited_for(pl_async *p, pl_async_block *waited)
{
    pleat_status first = PLEAT_OK;
    bool is_any_gone = false;
    while (waited) {
        pl_async_block *block = waited;
        waited = block->next;
        pleat_status st = free_on_own(p, block);
        land(p, block, st == PLEAT_OK);
        is_any_gone = is_any_gone || st == PLEAT_OK;
        first = first == PLEAT_OK ? st : first;
    }
    pleat_status st = is_any_gone ? wait_for_own(p) : PLEAT_OK;
    return first == PLEAT_OK ? st : first;
}

pleat_status pl_async_synchronize(pl_async *p)
{
    pl_lock_assert(&p->base.lock);
    uint64_t captured = 0;
    pl_async_block *waited = NULL;
    pleat_status st = pl_order_captured(&p->order, all_lanes(p), &captured);
    if (st != PLEAT_OK || captured != 0) {
        return st == PLEAT_OK ? PLEAT_ECAPTURE : st;
    }
    for (pl_async_block **link = &p->held; *link;) {
        pl_async_block *block = *link;
        if (block->captured != 0) {
            link = &block->next;
            continue;
        }
        take_held(p, link);
        block->next = waited;
        waited = block;
    }
    pl_lock_release(&p->base.lock);
    st = pl_device_synchronize(p->base.dev);
    pl_lock_acquire(&p->base.lock);
    while (st != PLEAT_OK && waited) {
        pl_async_block *block = waited;
        waited = block->next;
        land(p, block, false);
    }
    return st == PLEAT_OK ? free_waited_for(p, waited) : st;
}

void pl_async_free_all(pl_async *p)
{
    pl_lock_assert(&p->base.lock);
    pl_order_wait_all(&p->order);
    for (pl_tree_node *node; (node = pl_tree_first(&p->blocks)) != NULL;) {
        pl_async_block *block = PL_TREE_ENTRY(node, pl_async_block, node);
        pl_tree_remove(&p->blocks, node);
        pl_lock_release(&p->base.lock);
        /* pl_async_pool_destroy counts the blocks that stay. */
        (void)pl_async_pool_free_now(p->pool, block->ptr, block->bytes);
        pl_lock_acquire(&p->base.lock);
        pl_meta_free(&p->base.meta, block);
    }
}
