/* mxnet.c - MXNet's Naive and Round pools behind the allocator interface, as of 1.9 and of 2.x.
 *
 * The life of an instance and of a block, and what is told about both. Which block, and what the
 * driver is asked for: mxnet_pool.c, mxnet_grow.c. Takes the allocator's lock (rank 20), which
 * those drop around driver calls.
 *
 * Like MXNet it waits for the GPU without a time limit (wait_ms does not apply): for the last use
 * of a block by others, and before memory goes back to the driver, in set_limit too.
 * Source: src/storage/pooled_storage_manager.h of MXNet. */
#include "segments/classic/mxnet.h"

pleat_status pl_mxnet_create(const pl_allocator_ops *ops, const pl_mxnet_policy *policy,
                             pl_device *dev, const pl_allocator_options *options,
                             pl_allocator **out)
{
    pl_host host;
    pleat_status st = pl_host_init(&host);
    if (st != PLEAT_OK) {
        return st;
    }
    pl_mxnet *m = pl_host_calloc(&host, 1, sizeof *m);
    if (!m) {
        goto undo_host;
    }
    if (pl_lock_init(&m->lock, PL_RANK_DEVICE) != 0) {
        goto undo_alloc;
    }
    if (pl_waiter_init(&m->waiter, &m->lock, &m->stats.active[PLEAT_POOL_ALL].freed) != 0) {
        goto undo_lock;
    }
    m->base.ops = ops;
    m->policy = policy;
    m->dev = dev;
    m->options = *options;
    m->host = host;
    pl_mxnet_pool_init(m);
    *out = &m->base;
    return PLEAT_OK;

undo_lock:
    pl_lock_fini(&m->lock);
undo_alloc:
    pl_host_free(&host, m);
undo_host:
    pl_host_fini(&host);
    return PLEAT_ENOMEM_HOST;
}

pleat_status pl_mxnet_destroy(pl_allocator *a, bool force, size_t *n_live, size_t *n_leaked)
{
    pl_mxnet *m = pl_mxnet_of(a);
    *n_leaked = 0;
    pl_lock_acquire(&m->lock);
    *n_live = m->n_live;
    if (*n_live != 0 && !force) {
        pl_lock_release(&m->lock);
        return PLEAT_EBUSY;
    }
    m->options.observer = NULL;
    *n_leaked = pl_mxnet_release_all(m);
    pl_ptrmap_fini(&m->blocks, &m->host);
    pl_ptrmap_fini(&m->lists, &m->host);
    pl_lock_release(&m->lock);
    pl_waiter_fini(&m->waiter);
    pl_lock_fini(&m->lock);
    pl_host host = m->host;
    pl_host_free(&host, m);
    size_t n_lost = pl_host_fini(&host);
    pl_assert(n_lost == 0);
    (void)n_lost;
    return PLEAT_OK;
}

pleat_status pl_mxnet_alloc(pl_allocator *a, size_t bytes, pl_stream *stream, pleat_devptr *out)
{
    if (bytes == 0 || !stream) {
        return PLEAT_EINVAL;
    }
    if (bytes > PL_MXNET_MOST) {
        return PLEAT_ESIZE;
    }
    pl_mxnet *m = pl_mxnet_of(a);
    size_t class_bytes = m->policy->round(&m->options, bytes);
    pl_mxnet_block *block = NULL;
    pleat_status st = PLEAT_OK;
    pl_lock_acquire(&m->lock);
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
    pl_lock_release(&m->lock);
    return st;
}

/* ---- addresses ------------------------------------------------------------------------------- */

static bool is_live(const pl_mxnet_block *block)
{
    return block && block->state == PL_MXNET_LIVE;
}

/* The block that holds `ptr`, in any state, or NULL. */
static pl_mxnet_block *block_around(const pl_mxnet *m, pleat_devptr ptr)
{
    pl_mxnet_block key = { .ptr = ptr };
    pl_tree_node *node = pl_tree_floor(&m->by_address, &key.node);
    pl_mxnet_block *block = node ? PL_TREE_ENTRY(node, pl_mxnet_block, node) : NULL;
    return block && ptr - block->ptr < block->list->bytes ? block : NULL;
}

/* What to say of an address that is no live block: inside cached memory it was freed before, as far
 * as can be told; inside a live block or outside all blocks it never was one. */
pleat_status pl_mxnet_not_live(const pl_mxnet *m, pleat_devptr ptr)
{
    const pl_mxnet_block *block = block_around(m, ptr);
    return block && block->state != PL_MXNET_LIVE ? PLEAT_EDOUBLEFREE : PLEAT_EFOREIGN;
}

pl_mxnet_block *pl_mxnet_find_live(const pl_mxnet *m, pleat_devptr ptr)
{
    pl_mxnet_block *block = pl_ptrmap_find(&m->blocks, ptr);
    return is_live(block) ? block : NULL;
}

pleat_status pl_mxnet_record_stream(pl_allocator *a, pleat_devptr ptr, pl_stream *stream)
{
    if (!stream) {
        return PLEAT_EINVAL;
    }
    pl_mxnet *m = pl_mxnet_of(a);
    pl_lock_acquire(&m->lock);
    pl_mxnet_block *block = pl_mxnet_find_live(m, ptr);
    pleat_status st = block ? PLEAT_OK : PLEAT_EFOREIGN;
    if (block) {
        block->uses.lanes |= pl_order_lane(stream);
    }
    pl_lock_release(&m->lock);
    return st;
}

pleat_status pl_mxnet_query(pl_allocator *a, pleat_devptr ptr, pleat_block_info *out)
{
    pl_mxnet *m = pl_mxnet_of(a);
    pl_lock_acquire(&m->lock);
    const pl_mxnet_block *block = block_around(m, ptr);
    pleat_status st = is_live(block) ? PLEAT_OK : PLEAT_EFOREIGN;
    if (st == PLEAT_OK) {
        *out = (pleat_block_info){
            .base = block->ptr,
            .bytes = block->list->bytes,
            .requested_bytes = block->requested_bytes,
            .stream_id = pl_stream_id(block->stream),
            .stream = pl_stream_handle(block->stream),
            .device = pl_device_ordinal(m->dev),
        };
    }
    pl_lock_release(&m->lock);
    return st;
}

/* ---- free ------------------------------------------------------------------------------------ */

/* Which of the block's further users are being captured: a graph will use it again. */
static pleat_status ask_captures(pl_mxnet *m, pl_mxnet_block *block, uint64_t *captured)
{
    uint64_t others = block->uses.lanes & ~pl_order_lane(block->stream);
    *captured = 0;
    if (others == 0) {
        return PLEAT_OK;
    }
    block->state = PL_MXNET_FREEING;
    pleat_status st = pl_order_captured(&m->order, others, captured);
    block->state = PL_MXNET_LIVE;
    return st;
}

static pleat_status free_live(pl_mxnet *m, pl_mxnet_block *block, pl_stream *stream)
{
    uint64_t lanes = block->uses.lanes;
    uint64_t captured = 0;
    block->uses.lanes |= stream ? pl_order_lane(stream) : 0;
    pleat_status st = ask_captures(m, block, &captured);
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

static pleat_status mxnet_free(pl_allocator *a, pleat_devptr ptr, pl_stream *stream)
{
    pl_mxnet *m = pl_mxnet_of(a);
    pl_lock_acquire(&m->lock);
    pl_mxnet_block *block = pl_mxnet_find_live(m, ptr);
    pleat_status st = block ? free_live(m, block, stream) : pl_mxnet_not_live(m, ptr);
    pl_lock_release(&m->lock);
    return st;
}

/* The graph is gone; what it did counts as one more use, up to now. */
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

pleat_status pl_mxnet_release_capture(pl_allocator *a, pl_stream *stream)
{
    if (!stream) {
        return PLEAT_EINVAL;
    }
    bool is_capturing = false;
    pleat_status st = pl_stream_is_still_capturing(stream, &is_capturing);
    if (st == PLEAT_OK && is_capturing) {
        return PLEAT_ECAPTURE;
    }
    if (st != PLEAT_OK && st != PLEAT_ESTREAM) {
        return st;
    }
    uint64_t lane = pl_order_lane(stream) & ~(UINT64_C(1) << PL_ORDER_CROWD);
    pl_mxnet *m = pl_mxnet_of(a);
    pl_lock_acquire(&m->lock);
    end_hold(m, lane);
    pl_lock_release(&m->lock);
    return PLEAT_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

pleat_status pl_mxnet_trim(pl_allocator *a, uint64_t keep_bytes, bool wait, uint64_t *released)
{
    pl_mxnet *m = pl_mxnet_of(a);
    uint64_t n = 0;
    pl_lock_acquire(&m->lock);
    pleat_status st = pl_mxnet_release_cached(m, keep_bytes, wait ? UINT32_MAX : 0, &n);
    pl_lock_release(&m->lock);
    if (st == PLEAT_OK) {
        *released = n;
    }
    return st;
}

pleat_status pl_mxnet_set_limit(pl_allocator *a, uint64_t bytes)
{
    pl_mxnet *m = pl_mxnet_of(a);
    uint64_t released = 0;
    pleat_status st = PLEAT_OK;
    pl_lock_acquire(&m->lock);
    if (bytes != 0 && m->reserved_bytes > bytes) {
        st = pl_mxnet_release_cached(m, bytes, UINT32_MAX, &released);
    }
    if (st == PLEAT_OK && bytes != 0 && m->reserved_bytes + m->growing_bytes > bytes) {
        st = PLEAT_ENOMEM_DEVICE;
    }
    if (st == PLEAT_OK) {
        m->options.limit_bytes = bytes;
    }
    pl_lock_release(&m->lock);
    return st;
}

/* ---- what is told ---------------------------------------------------------------------------- */

/* Blocks are not made of granules, so live_granules stays 0; nothing is split. */
void pl_mxnet_stats(pl_allocator *a, pleat_stats *out)
{
    pl_mxnet *m = pl_mxnet_of(a);
    pl_lock_acquire(&m->lock);
    *out = m->stats;
    out->resident_bytes = m->reserved_bytes;
    out->pending_bytes = pl_mxnet_pending_bytes(m);
    out->free_bytes = m->reserved_bytes - out->pending_bytes -
                      m->stats.allocated_bytes[PLEAT_POOL_ALL].current;
    out->metadata_bytes = m->host.bytes;
    pl_stats_read_device(out, m->dev);
    pl_lock_release(&m->lock);
}

void pl_mxnet_reset_peaks(pl_allocator *a)
{
    pl_mxnet *m = pl_mxnet_of(a);
    pl_lock_acquire(&m->lock);
    pl_stats_reset_peaks(&m->stats);
    pl_lock_release(&m->lock);
}

void pl_mxnet_see(pl_allocator *a, void (*see)(void *context, const pl_piece *piece), void *context)
{
    pl_mxnet *m = pl_mxnet_of(a);
    pl_lock_acquire(&m->lock);
    pl_mxnet_visit(m, see, context);
    pl_lock_release(&m->lock);
}

int pl_mxnet_walk(pl_allocator *a)
{
    pl_mxnet *m = pl_mxnet_of(a);
    pl_lock_acquire(&m->lock);
    int broken = pl_mxnet_check_all(m);
    pl_lock_release(&m->lock);
    return broken;
}

/* ---- the four of them ------------------------------------------------------------------------ */

static const pl_mxnet_policy naive = { pl_mxnet_round_naive, true, true };
static const pl_mxnet_policy round_2 = { pl_mxnet_round_round, true, true };
static const pl_mxnet_policy naive_19 = { pl_mxnet_round_naive, false, true };
static const pl_mxnet_policy round_19 = { pl_mxnet_round_round, false, true };

static pleat_status create_naive(pl_device *dev, const pl_allocator_options *options,
                                 pl_allocator **out)
{
    pleat_status st = pl_mxnet_check_naive(options);
    return st == PLEAT_OK ? pl_mxnet_create(&pl_mxnet_naive_ops, &naive, dev, options, out) : st;
}

static pleat_status create_round(pl_device *dev, const pl_allocator_options *options,
                                 pl_allocator **out)
{
    pleat_status st = pl_mxnet_check_round(options);
    return st == PLEAT_OK ? pl_mxnet_create(&pl_mxnet_round_ops, &round_2, dev, options, out) : st;
}

static pleat_status create_naive_19(pl_device *dev, const pl_allocator_options *options,
                                    pl_allocator **out)
{
    pleat_status st = pl_mxnet_check_naive(options);
    return st == PLEAT_OK ? pl_mxnet_create(&pl_mxnet19_naive_ops, &naive_19, dev, options, out)
                          : st;
}

static pleat_status create_round_19(pl_device *dev, const pl_allocator_options *options,
                                    pl_allocator **out)
{
    pleat_status st = pl_mxnet_check_round(options);
    return st == PLEAT_OK ? pl_mxnet_create(&pl_mxnet19_round_ops, &round_19, dev, options, out)
                          : st;
}

const pl_allocator_ops pl_mxnet_naive_ops = {
    .name = "mxnet-naive",
    .create = create_naive,
    .free = mxnet_free,
    .release_capture = pl_mxnet_release_capture,
    PL_MXNET_COMMON_OPS,
};

const pl_allocator_ops pl_mxnet_round_ops = {
    .name = "mxnet-round",
    .create = create_round,
    .free = mxnet_free,
    .release_capture = pl_mxnet_release_capture,
    PL_MXNET_COMMON_OPS,
};

const pl_allocator_ops pl_mxnet19_naive_ops = {
    .name = "mxnet19-naive",
    .create = create_naive_19,
    .free = mxnet_free,
    .release_capture = pl_mxnet_release_capture,
    PL_MXNET_COMMON_OPS,
};

const pl_allocator_ops pl_mxnet19_round_ops = {
    .name = "mxnet19-round",
    .create = create_round_19,
    .free = mxnet_free,
    .release_capture = pl_mxnet_release_capture,
    PL_MXNET_COMMON_OPS,
};
