/* unpooled.c - one driver allocation per block: MXNet's Unpooled, or plain cudaMalloc.
 *
 * Sizes are not rounded and nothing is cached. A free waits on the host for all streams that used
 * the block, as cudaFree does. So this is the only allocator with frees that block on the GPU. Each
 * wait counts as a host sync. A block is held if a graph will use it: it was allocated in a
 * capture, or one of its streams is being captured at the free. The block goes to the driver with
 * pl_allocator_ops.release_capture. A refused request is tried again only after kept blocks were
 * given back, or after another thread's free.
 *
 * Built on mxnet.h, where the invariants are. A block that cannot go to the driver yet is kept in
 * the lists. Requests do not search these lists. Takes the allocator's lock (rank 20), which is
 * dropped around driver calls. Source: src/storage/naive_storage_manager.h of MXNet. */
#include "segments/classic/mxnet.h"

static const pl_mxnet_policy policy = {
    .ops = &pl_unpooled_ops,
    .round = pl_mxnet_round_not,
    .is_v2 = true,
};

static pleat_status unpooled_alloc(pl_allocator *a, size_t bytes, pl_stream *stream,
                                   pleat_devptr *out)
{
    pl_mxnet *m = pl_mxnet_of(a);
    bool is_capturing = false;
    pleat_status st = stream ? pl_stream_is_capturing(stream, &is_capturing) : PLEAT_OK;
    st = st == PLEAT_OK ? pl_mxnet_alloc(a, bytes, stream, out) : st;
    if (st == PLEAT_OK && is_capturing) {
        pl_lock_acquire(&m->base.lock);
        pl_mxnet_find_live(m, *out)->birth = pl_order_birth(&m->order, stream);
        pl_lock_release(&m->base.lock);
    }
    return st;
}

/* Wait for all streams that used the block, unless captures hold the block (*captured). ECAPTURE:
 * waiting for the legacy stream would break another stream's capture. The block stays in the
 * lists. */
static pleat_status wait_for_users(pl_mxnet *m, const pl_mxnet_block *block, uint64_t *captured)
{
    pleat_status st = pl_order_captured(&m->order, block->uses.lanes, captured);
    *captured |= pl_order_born_in(&m->order, block->birth);
    if (st != PLEAT_OK || *captured != 0) {
        return st;
    }
    return pl_order_wait(&m->order, block->uses.lanes, UINT32_MAX);
}

/* A block that the driver does not take back stays in the lists, too. */
static void dispose(pl_mxnet *m, pl_mxnet_block *block, uint64_t captured, bool is_over)
{
    pl_mxnet_end_live(m, block);
    pl_order_end(&m->order, &block->uses);
    if (captured != 0) {
        pl_mxnet_hold(m, block, captured);
        return;
    }
    pl_mxnet_end_active(m, block);
    if (!is_over || pl_mxnet_release(m, block) != PLEAT_OK) {
        pl_mxnet_put(m, block);
    }
}

static pleat_status free_live(pl_mxnet *m, pl_mxnet_block *block, pl_stream *stream)
{
    uint64_t lanes = block->uses.lanes;
    uint64_t captured = 0;
    block->uses.lanes |= stream ? pl_order_lane(stream) : 0;
    block->state = PL_MXNET_FREEING;
    pleat_status st = wait_for_users(m, block, &captured);
    if (st != PLEAT_OK && st != PLEAT_ECAPTURE) {
        block->uses.lanes = lanes;
        block->state = PL_MXNET_LIVE;
        return st;
    }
    dispose(m, block, captured, st == PLEAT_OK);
    return PLEAT_OK;
}

static pleat_status free_at(pl_cache *c, pleat_devptr ptr, pl_stream *stream)
{
    pl_mxnet *m = pl_mxnet_of(&c->base);
    pl_mxnet_block *block = pl_mxnet_find_live(m, ptr);
    return block ? free_live(m, block, stream) : pl_mxnet_not_live(m, ptr);
}

static pleat_status end_capture(pl_cache *c, pl_stream *stream)
{
    uint64_t released = 0;
    (void)pl_mxnet_end_capture(c, stream);
    return pl_mxnet_give_back(c, 0, true, &released);
}

static const pl_cache_kind kind = {
    .free = free_at,
    .end_capture = end_capture,
    PL_MXNET_COMMON_KIND,
};

static pleat_status unpooled_create(pl_device *dev, const pl_allocator_options *options,
                                    pl_allocator **out)
{
    return pl_mxnet_create(&policy, &kind, dev, options, out);
}

const pl_allocator_ops pl_unpooled_ops = {
    .name = "unpooled",
    .create = unpooled_create,
    .alloc = unpooled_alloc,
    PL_MXNET_COMMON_OPS,
};
