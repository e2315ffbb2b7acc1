/* mxnet_pool.c - the lists of free blocks: last in, first out.
 *
 * Upholds I2, I3, I4 and I6 of mxnet.h. Guarded by the allocator's lock. Only pl_mxnet_reuse drops
 * the lock, while the host waits for another stream's last use of a block. The block is taken
 * meanwhile. A hit on the block's own stream makes no driver call and allocates no host memory.
 * Source: PooledStorageManager, Alloc and Free, of MXNet. */
#include "segments/classic/mxnet.h"

static bool is_block_before(const pl_tree_node *a, const pl_tree_node *b)
{
    const pl_mxnet_block *x = PL_TREE_ENTRY(a, const pl_mxnet_block, node);
    const pl_mxnet_block *y = PL_TREE_ENTRY(b, const pl_mxnet_block, node);
    return x->ptr < y->ptr;
}

static bool is_list_before(const pl_tree_node *a, const pl_tree_node *b)
{
    const pl_mxnet_list *x = PL_TREE_ENTRY(a, const pl_mxnet_list, node);
    const pl_mxnet_list *y = PL_TREE_ENTRY(b, const pl_mxnet_list, node);
    return x->bytes < y->bytes;
}

void pl_mxnet_pool_init(pl_mxnet *m)
{
    pl_tree_init(&m->by_address, is_block_before);
    pl_tree_init(&m->lists, is_list_before);
    pl_order_init(&m->order, m->base.dev, &m->base.lock);
}

pl_mxnet_block *pl_mxnet_block_at(const pl_mxnet *m, pleat_devptr ptr)
{
    pl_mxnet_block key = { .ptr = ptr };
    pl_tree_node *node = pl_tree_floor(&m->by_address, &key.node);
    pl_mxnet_block *block = node ? PL_TREE_ENTRY(node, pl_mxnet_block, node) : NULL;
    return block && block->ptr == ptr ? block : NULL;
}

pl_mxnet_list *pl_mxnet_list_of(const pl_mxnet *m, size_t class_bytes)
{
    pl_mxnet_list key = { .bytes = class_bytes };
    pl_tree_node *node = pl_tree_floor(&m->lists, &key.node);
    pl_mxnet_list *list = node ? PL_TREE_ENTRY(node, pl_mxnet_list, node) : NULL;
    return list && list->bytes == class_bytes ? list : NULL;
}

void pl_mxnet_put(pl_mxnet *m, pl_mxnet_block *block)
{
    pl_lock_assert(&m->base.lock);
    pl_assert(block->state == PL_MXNET_TAKEN);
    block->state = PL_MXNET_CACHED;
    block->next = block->list->first;
    block->list->first = block;
    m->n_cached++;
    m->cached_bytes += block->list->bytes;
    if (!pl_order_is_own(&block->uses, block->stream)) {
        pl_doubt_add(&m->doubtful, &block->doubt);
    }
}

pl_mxnet_block *pl_mxnet_take(pl_mxnet *m, pl_mxnet_block **link)
{
    pl_lock_assert(&m->base.lock);
    pl_mxnet_block *block = *link;
    pl_assert(block->state == PL_MXNET_CACHED);
    block->state = PL_MXNET_TAKEN;
    *link = block->next;
    block->next = NULL;
    m->n_cached--;
    m->cached_bytes -= block->list->bytes;
    pl_doubt_remove(&block->doubt);
    return block;
}

void pl_mxnet_hold(pl_mxnet *m, pl_mxnet_block *block, uint64_t lanes)
{
    pl_lock_assert(&m->base.lock);
    pl_assert(block->state == PL_MXNET_TAKEN && lanes != 0);
    block->state = PL_MXNET_HELD;
    block->held = lanes;
    block->next = m->held;
    m->held = block;
}

void pl_mxnet_hand_out(pl_mxnet *m, pl_mxnet_block *block, pl_stream *stream, size_t bytes)
{
    pl_lock_assert(&m->base.lock);
    pl_assert(block->state == PL_MXNET_TAKEN);
    unsigned pool = block->list->pool;
    block->state = PL_MXNET_LIVE;
    block->stream = stream;
    block->requested_bytes = bytes;
    block->uses = (pl_order_uses){ .lanes = pl_order_lane(stream) };
    m->n_live++;
    pl_stats_add(m->base.stats.allocation, pool, 1);
    pl_stats_add(m->base.stats.allocated_bytes, pool, block->list->bytes);
    pl_stats_add(m->base.stats.active, pool, 1);
    pl_stats_add(m->base.stats.active_bytes, pool, block->list->bytes);
    pl_stats_add(m->base.stats.requested_bytes, pool, bytes);
    m->base.stats.rounding_bytes += block->list->bytes - bytes;
    pl_mxnet_tell(m, PL_ACTION_ALLOC, block);
}

void pl_mxnet_end_live(pl_mxnet *m, pl_mxnet_block *block)
{
    pl_lock_assert(&m->base.lock);
    pl_assert(block->state == PL_MXNET_LIVE || block->state == PL_MXNET_FREEING);
    unsigned pool = block->list->pool;
    block->state = PL_MXNET_TAKEN;
    m->n_live--;
    pl_stats_sub(m->base.stats.allocation, pool, 1);
    pl_stats_sub(m->base.stats.allocated_bytes, pool, block->list->bytes);
    m->base.stats.rounding_bytes -= block->list->bytes - block->requested_bytes;
    pl_mxnet_tell(m, PL_ACTION_FREE_REQUESTED, block);
}

void pl_mxnet_end_active(pl_mxnet *m, pl_mxnet_block *block)
{
    pl_lock_assert(&m->base.lock);
    pl_assert(block->state == PL_MXNET_TAKEN);
    unsigned pool = block->list->pool;
    pl_stats_sub(m->base.stats.active, pool, 1);
    pl_stats_sub(m->base.stats.active_bytes, pool, block->list->bytes);
    pl_stats_sub(m->base.stats.requested_bytes, pool, block->requested_bytes);
    pl_mxnet_tell(m, PL_ACTION_FREE_COMPLETED, block);
}

/* Take the newest block that needs no wait for `stream`; NULL if there is none. */
static pl_mxnet_block *take_quiet(pl_mxnet *m, pl_mxnet_list *list, pl_stream *stream)
{
    pl_mxnet_block **link = &list->first;
    while (*link && pl_order_open(&m->order, &(*link)->uses, stream) != 0) {
        link = &(*link)->next;
    }
    return *link ? pl_mxnet_take(m, link) : NULL;
}

/* Other streams used the newest block, in work not known to be over. Wait for this work. If a
 * capture forbids the wait, take a block that needs no wait. */
static pleat_status wait_for_newest(pl_mxnet *m, pl_mxnet_list *list, pl_stream *stream,
                                    pl_mxnet_block **out)
{
    pl_mxnet_block *block = pl_mxnet_take(m, &list->first);
    pl_lock_release(&m->base.lock);
    bool is_capturing = false;
    pleat_status st = pl_stream_is_capturing(stream, &is_capturing);
    pl_lock_acquire(&m->base.lock);
    if (st == PLEAT_OK && !is_capturing) {
        uint64_t lanes = pl_order_open(&m->order, &block->uses, stream);
        st = pl_order_wait(&m->order, lanes, UINT32_MAX);
        if (st == PLEAT_OK) {
            *out = block;
            return PLEAT_OK;
        }
    }
    pl_mxnet_put(m, block);
    if (st != PLEAT_OK && st != PLEAT_ECAPTURE) {
        return st;
    }
    *out = take_quiet(m, list, stream);
    return PLEAT_OK;
}

pleat_status pl_mxnet_reuse(pl_mxnet *m, size_t class_bytes, pl_stream *stream,
                            pl_mxnet_block **out)
{
    pl_lock_assert(&m->base.lock);
    *out = NULL;
    pl_mxnet_list *list = pl_mxnet_list_of(m, class_bytes);
    pl_mxnet_block *block = list ? list->first : NULL;
    if (!block) {
        return PLEAT_OK;
    }
    if (!pl_order_is_own(&block->uses, stream) &&
        pl_order_open(&m->order, &block->uses, stream) != 0) {
        return wait_for_newest(m, list, stream, out);
    }
    *out = pl_mxnet_take(m, &list->first);
    return PLEAT_OK;
}
