/* mxnet.c - MXNet's Naive and Round pools behind the allocator interface, as of 1.9 and of 2.x.
 *
 * Makes instances, serves allocations and frees, and answers questions. mxnet_pool.c chooses the
 * block, mxnet_grow.c asks the driver. Takes the allocator's lock (rank 20); mxnet_pool.c and
 * mxnet_grow.c drop the lock around driver calls.
 *
 * As in MXNet, the host waits for the GPU without a time limit, and wait_ms does not apply. It
 * waits for a block's last use by other streams, and before memory goes back to the driver, in
 * set_limit too. Source: src/storage/pooled_storage_manager.h of MXNet. */
#include "segments/classic/mxnet.h"

pleat_status pl_mxnet_create(const pl_mxnet_policy *policy, const pl_cache_kind *kind,
                             pl_device *dev, const pl_allocator_options *options,
                             pl_allocator **out)
{
    const pl_mxnet_options own = pl_mxnet_own(options);
    pl_cache *c = NULL;
    pleat_status st = policy->check ? policy->check(&own) : PLEAT_OK;
    if (st == PLEAT_OK) {
        st = pl_cache_create(sizeof(pl_mxnet), policy->ops, kind, dev, options, &c);
    }
    if (st != PLEAT_OK) {
        return st;
    }
    pl_mxnet *m = pl_mxnet_of(&c->base);
    m->policy = policy;
    m->options = own;
    pl_mxnet_pool_init(m);
    *out = &c->base;
    return PLEAT_OK;
}

pleat_status pl_mxnet_alloc(pl_allocator *a, size_t bytes, pl_stream *stream, pleat_devptr *out)
{
    pleat_status st = pl_cache_check_request(bytes, stream);
    if (st != PLEAT_OK) {
        return st;
    }
    pl_mxnet *m = pl_mxnet_of(a);
    size_t class_bytes = m->policy->round(&m->options, bytes);
    pl_mxnet_block *block = NULL;
    pl_lock_acquire(&m->base.lock);
    if (m->policy->is_pooled) {
        st = pl_mxnet_reuse(m, class_bytes, stream, &block);
    }
    if (st == PLEAT_OK && !block) {
        st = pl_mxnet_grow(m, class_bytes, stream, &block);
    }
    if (st == PLEAT_OK) {
        pl_mxnet_hand_out(m, block, stream, bytes);
        *out = block->ptr;
    }
    pl_lock_release(&m->base.lock);
    return st;
}

/* ---- addresses ------------------------------------------------------------------------------- */

static bool is_live(const pl_mxnet_block *block)
{
    return block && block->state == PL_MXNET_LIVE;
}

/* The block that contains `ptr`, in any state, or NULL. */
static pl_mxnet_block *block_around(const pl_mxnet *m, pleat_devptr ptr)
{
    pl_mxnet_block key = { .ptr = ptr };
    pl_tree_node *node = pl_tree_floor(&m->by_address, &key.node);
    pl_mxnet_block *block = node ? PL_TREE_ENTRY(node, pl_mxnet_block, node) : NULL;
    return block && ptr - block->ptr < block->list->bytes ? block : NULL;
}

/* The error for an address outside live blocks. In freed memory the answer is a double free, as far
 * as known. Inside a live block, or outside all blocks, the address is foreign. */
pleat_status pl_mxnet_not_live(const pl_mxnet *m, pleat_devptr ptr)
{
    const pl_mxnet_block *block = block_around(m, ptr);
    return block && block->state != PL_MXNET_LIVE ? PLEAT_EDOUBLEFREE : PLEAT_EFOREIGN;
}

pl_mxnet_block *pl_mxnet_find_live(const pl_mxnet *m, pleat_devptr ptr)
{
    pl_mxnet_block *block = pl_mxnet_block_at(m, ptr);
    return is_live(block) ? block : NULL;
}

pleat_status pl_mxnet_record(pl_cache *c, pleat_devptr ptr, pl_stream *stream)
{
    pl_mxnet_block *block = pl_mxnet_find_live(pl_mxnet_of(&c->base), ptr);
    if (!block) {
        return PLEAT_EFOREIGN;
    }
    block->uses.lanes |= pl_order_lane(stream);
    return PLEAT_OK;
}

pleat_status pl_mxnet_query(pl_cache *c, pleat_devptr ptr, pleat_block_info *out)
{
    const pl_mxnet_block *block = block_around(pl_mxnet_of(&c->base), ptr);
    if (!is_live(block)) {
        return PLEAT_EFOREIGN;
    }
    *out = pl_cache_info(c, block->ptr, block->list->bytes, block->requested_bytes, block->stream);
    return PLEAT_OK;
}

/* ---- free ------------------------------------------------------------------------------------ */

/* If another user stream of the block is being captured, hold the block: the graph will use it
 * again. */
static pleat_status free_live(pl_mxnet *m, pl_mxnet_block *block, pl_stream *stream)
{
    uint64_t lanes = block->uses.lanes;
    uint64_t captured = 0;
    block->uses.lanes |= stream ? pl_order_lane(stream) : 0;
    uint64_t others = block->uses.lanes & ~pl_order_lane(block->stream);
    block->state = PL_MXNET_FREEING;
    pleat_status st = pl_order_captured(&m->order, others, &captured);
    block->state = PL_MXNET_LIVE;
    if (st != PLEAT_OK) {
        block->uses.lanes = lanes;
        return st;
    }
    pl_mxnet_end_live(m, block);
    pl_order_end(&m->order, &block->uses);
    if (captured != 0) {
        pl_mxnet_hold(m, block, captured);
        return PLEAT_OK;
    }
    pl_mxnet_end_active(m, block);
    pl_mxnet_put(m, block);
    return PLEAT_OK;
}

static pleat_status free_at(pl_cache *c, pleat_devptr ptr, pl_stream *stream)
{
    pl_mxnet *m = pl_mxnet_of(&c->base);
    pl_mxnet_block *block = pl_mxnet_find_live(m, ptr);
    return block ? free_live(m, block, stream) : pl_mxnet_not_live(m, ptr);
}

/* The graph is gone. Its launches count as one more use up to the work submitted so far. */
static void end_hold(pl_mxnet *m, uint64_t lane)
{
    pl_mxnet_block **link = &m->held;
    while (*link) {
        pl_mxnet_block *block = *link;
        block->held &= ~lane;
        if (block->held != 0) {
            link = &block->next;
            continue;
        }
        *link = block->next;
        block->state = PL_MXNET_TAKEN;
        pl_order_end(&m->order, &block->uses);
        pl_mxnet_end_active(m, block);
        pl_mxnet_put(m, block);
    }
}

pleat_status pl_mxnet_end_capture(pl_cache *c, pl_stream *stream)
{
    pl_mxnet *m = pl_mxnet_of(&c->base);
    end_hold(m, pl_order_release(&m->order, stream));
    return PLEAT_OK;
}

pleat_status pl_mxnet_give_back(pl_cache *c, uint64_t keep_bytes, bool wait, uint64_t *released)
{
    return pl_mxnet_release_cached(pl_mxnet_of(&c->base), keep_bytes, wait ? UINT32_MAX : 0,
                                   released);
}

/* ---- the four pools -------------------------------------------------------------------------- */

static const pl_cache_kind kind = {
    .free = free_at,
    .end_capture = pl_mxnet_end_capture,
    PL_MXNET_COMMON_KIND,
};

enum { NAIVE, ROUND, NAIVE_19, ROUND_19 };

static const pl_mxnet_policy policies[] = {
    [NAIVE] = { &pl_mxnet_naive_ops, pl_mxnet_check_naive, pl_mxnet_round_naive, .is_v2 = true,
                .is_pooled = true },
    [ROUND] = { &pl_mxnet_round_ops, pl_mxnet_check_round, pl_mxnet_round_round, .is_v2 = true,
                .is_pooled = true },
    [NAIVE_19] = { &pl_mxnet19_naive_ops, pl_mxnet_check_naive, pl_mxnet_round_naive,
                   .is_v2 = false, .is_pooled = true },
    [ROUND_19] = { &pl_mxnet19_round_ops, pl_mxnet_check_round, pl_mxnet_round_round,
                   .is_v2 = false, .is_pooled = true },
};

static pleat_status create_naive(pl_device *dev, const pl_allocator_options *options,
                                 pl_allocator **out)
{
    return pl_mxnet_create(&policies[NAIVE], &kind, dev, options, out);
}

static pleat_status create_round(pl_device *dev, const pl_allocator_options *options,
                                 pl_allocator **out)
{
    return pl_mxnet_create(&policies[ROUND], &kind, dev, options, out);
}

static pleat_status create_naive_19(pl_device *dev, const pl_allocator_options *options,
                                    pl_allocator **out)
{
    return pl_mxnet_create(&policies[NAIVE_19], &kind, dev, options, out);
}

static pleat_status create_round_19(pl_device *dev, const pl_allocator_options *options,
                                    pl_allocator **out)
{
    return pl_mxnet_create(&policies[ROUND_19], &kind, dev, options, out);
}

/* clang-format off */
#define POOL_OPS                       \
    .options = &pl_mxnet_option_table, \
    .alloc = pl_mxnet_alloc,           \
    PL_MXNET_COMMON_OPS

const pl_allocator_ops pl_mxnet_naive_ops = {
    .name = "mxnet-naive", .create = create_naive, POOL_OPS };
const pl_allocator_ops pl_mxnet_round_ops = {
    .name = "mxnet-round", .create = create_round, POOL_OPS };
const pl_allocator_ops pl_mxnet19_naive_ops = {
    .name = "mxnet19-naive", .create = create_naive_19, POOL_OPS };
const pl_allocator_ops pl_mxnet19_round_ops = {
    .name = "mxnet19-round", .create = create_round_19, POOL_OPS };
/* clang-format on */
