/* torch_cache.c - PyTorch's caching allocators behind the allocator interface.
 *
 * Makes instances, serves allocations and frees, and answers questions. torch_pool.c chooses the
 * block, torch_grow.c gets memory, torch_event.c records fences. Takes the allocator's lock (rank
 * 20); torch_grow.c and torch_event.c drop the lock around driver calls.
 *
 * As in PyTorch, the host waits for the GPU without a time limit, and wait_ms does not apply. It
 * waits before a request fails, and before a segment goes back to the driver, in trim and set_limit
 * too. Source: c10/cuda/CUDACachingAllocator.cpp. */
#include "segments/classic/torch/torch_cache.h"

#include <string.h>

/* Find a cached block that fits. *out stays NULL without one. */
static pleat_status reuse(pl_torch *t, const pl_torch_request *r, pl_torch_block **out)
{
    pl_torch_block *block = pl_torch_find_free(t, r);
    if (!block) {
        return PLEAT_OK;
    }
    pl_torch_block *spare = NULL;
    if (pl_torch_should_split(t, block, r->rounded_bytes)) {
        spare = pl_meta_alloc(&t->base.meta, sizeof *spare);
        if (!spare) {
            return PLEAT_ENOMEM_HOST;
        }
    }
    *out = pl_torch_hand_out(t, block, spare, r);
    return PLEAT_OK;
}

static pleat_status torch_alloc(pl_allocator *a, size_t bytes, pl_stream *stream, pleat_devptr *out)
{
    pleat_status st = pl_cache_check_request(bytes, stream);
    if (st != PLEAT_OK) {
        return st;
    }
    pl_torch *t = pl_torch_of(a);
    pl_lock_acquire(&t->base.lock);
    pl_torch_poll(t);
    pl_torch_request r = pl_torch_request_of(t, bytes, stream);
    pl_torch_block *block = NULL;
    st = reuse(t, &r, &block);
    if (st == PLEAT_OK && !block) {
        st = pl_torch_grow(t, &r, &block);
    }
    if (st == PLEAT_OK) {
        *out = block->ptr;
    }
    pl_lock_release(&t->base.lock);
    return st;
}

/* The block that contains `ptr`, in any state, or NULL. */
static pl_torch_block *block_around(const pl_torch *t, pleat_devptr ptr)
{
    pl_torch_segment key = { .ptr = ptr };
    pl_tree_node *node = pl_tree_floor(&t->segments, &key.node);
    if (!node) {
        return NULL;
    }
    pl_torch_block *block = PL_TREE_ENTRY(node, pl_torch_segment, node)->first;
    while (block && ptr - block->ptr >= block->bytes) {
        block = block->next;
    }
    return block;
}

/* The error for an address outside live blocks. In cached memory the answer is a double free, as
 * far as known. Inside a live block, or outside all segments, the address is foreign. */
static pleat_status not_live(const pl_torch *t, pleat_devptr ptr)
{
    const pl_torch_block *block = block_around(t, ptr);
    bool is_cached = block && block->is_mapped && block->state != PL_TORCH_LIVE;
    return is_cached ? PLEAT_EDOUBLEFREE : PLEAT_EFOREIGN;
}

static pl_torch_block *find_live(const pl_torch *t, pleat_devptr ptr)
{
    pl_torch_block *block = pl_torch_live_at(t, ptr);
    return block && block->state == PL_TORCH_LIVE ? block : NULL;
}

/* The block stops being allocated. If uses are left, the block stays active until they are over. */
static void commit_free(pl_torch *t, pl_torch_block *block)
{
    unsigned pool = block->pool->index;
    pl_tree_remove(&t->live, &block->node);
    pl_stats_sub(t->base.stats.allocation, pool, 1);
    pl_stats_sub(t->base.stats.allocated_bytes, pool, block->bytes);
    t->base.stats.rounding_bytes -= block->bytes - block->requested_bytes;
    pl_torch_tell(t, PL_ACTION_FREE_REQUESTED, block, block->requested_bytes);
    if (block->bytes >= t->options.max_split_bytes) {
        pl_stat_sub(&t->base.stats.oversize_allocations, 1);
    }
    if (block->n_pending != 0) {
        block->state = PL_TORCH_PENDING;
        return;
    }
    block->state = PL_TORCH_TAKEN;
    pl_torch_recycle(t, block);
}

static pleat_status free_live(pl_torch *t, pl_torch_block *block, pl_stream *stream)
{
    bool added = false;
    pleat_status st = stream ? pl_torch_add_use(t, block, stream, &added) : PLEAT_OK;
    if (st != PLEAT_OK) {
        return st;
    }
    if (block->uses) {
        block->state = PL_TORCH_FREEING;
        st = pl_torch_queue_uses(t, block);
        if (st != PLEAT_OK) {
            block->state = PL_TORCH_LIVE;
            if (added) {
                pl_torch_drop_newest_use(t, block);
            }
            return st;
        }
    }
    commit_free(t, block);
    return PLEAT_OK;
}

static pleat_status free_at(pl_cache *c, pleat_devptr ptr, pl_stream *stream)
{
    pl_torch *t = pl_torch_of(&c->base);
    pl_torch_block *block = find_live(t, ptr);
    return block ? free_live(t, block, stream) : not_live(t, ptr);
}

static pleat_status torch_free(pl_allocator *a, pleat_devptr ptr, pl_stream *stream)
{
    return pl_cache_free_by(a, ptr, stream, free_at);
}

static pleat_status record(pl_cache *c, pleat_devptr ptr, pl_stream *stream)
{
    pl_torch *t = pl_torch_of(&c->base);
    bool added = false;
    pl_torch_block *block = find_live(t, ptr);
    return block ? pl_torch_add_use(t, block, stream, &added) : PLEAT_EFOREIGN;
}

static pleat_status query(pl_cache *c, pleat_devptr ptr, pleat_block_info *out)
{
    const pl_torch *t = pl_torch_of(&c->base);
    const pl_torch_block *block = find_live(t, ptr);
    block = block ? block : block_around(t, ptr);
    if (!block || block->state != PL_TORCH_LIVE) {
        return PLEAT_EFOREIGN;
    }
    *out = pl_cache_info(c, block->ptr, block->bytes, block->requested_bytes, block->stream);
    return PLEAT_OK;
}

/* As emptyCache, all unsplit blocks go, but only while more than keep_bytes are reserved. Serves
 * set_limit, too. Unlike setMemoryFraction, the cache shrinks at once, and a limit that cannot be
 * kept is refused. */
static pleat_status give_back(pl_cache *c, uint64_t keep_bytes, bool wait, uint64_t *released)
{
    pl_torch *t = pl_torch_of(&c->base);
    pl_torch_poll(t);
    return pl_torch_release_cached(t, keep_bytes, wait, released);
}

static pleat_status end_capture(pl_cache *c, pl_stream *stream)
{
    return pl_torch_release_held(pl_torch_of(&c->base), stream);
}

/* A use that cannot be waited for is covered by the wait for all streams. */
static size_t release_all(pl_cache *c)
{
    pl_torch *t = pl_torch_of(&c->base);
    (void)pl_torch_wait_uses(t);
    pl_torch_drop_uses(t);
    if (t->segments.count != 0) {
        pl_torch_wait_for_streams(t);
    }
    size_t n_refused = 0;
    for (pl_tree_node *node; (node = pl_tree_first(&t->segments)) != NULL;) {
        pl_tree_remove(&t->segments, node);
        n_refused += t->source->end_segment(t, PL_TREE_ENTRY(node, pl_torch_segment, node));
    }
    n_refused += t->source->end ? t->source->end(t) : 0;
    return n_refused;
}

static uint64_t refused_bytes(const pl_torch *t)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < PLEAT_N_SIZES; i++) {
        bytes += (uint64_t)t->pools[i].refused.n * t->pools[i].page_bytes;
    }
    return bytes;
}

static void tell_stats(pl_cache *c, pleat_stats *out)
{
    const pl_torch *t = pl_torch_of(&c->base);
    uint64_t allocated = c->stats.allocated_bytes[PLEAT_SIZES_ALL].current;
    uint64_t active = c->stats.active_bytes[PLEAT_SIZES_ALL].current;
    out->idle_bytes = refused_bytes(t);
    out->free_bytes = c->reserved_bytes - active - out->idle_bytes - t->lost_bytes;
    out->pending_bytes = active - allocated;
    out->pinned_granules = t->lost_bytes / pl_device_granule_bytes(c->dev);
}

/* A block in a call's hands serves no request. It is pending, like a block with unfinished uses. */
static pl_piece_kind kind_of(const pl_torch_block *block)
{
    if (!block->is_mapped || block->state == PL_TORCH_LOST) {
        return PL_PIECE_HOLE;
    }
    switch (block->state) {
    case PL_TORCH_FREE:
        return PL_PIECE_FREE;
    case PL_TORCH_LIVE:
    case PL_TORCH_FREEING:
        return PL_PIECE_LIVE;
    default:
        return PL_PIECE_PENDING;
    }
}

/* The hole at the end of a segment is left out: with pages it is most of the segment, and
 * uninteresting. */
static void visit_segment(const pl_torch_segment *segment,
                          void (*see)(void *context, const pl_piece *piece), void *context)
{
    bool is_first = true;
    for (const pl_torch_block *block = segment->first; block; block = block->next) {
        pl_piece_kind kind = kind_of(block);
        if (kind == PL_PIECE_HOLE && !block->next) {
            continue;
        }
        pl_piece piece = {
            .base = block->ptr,
            .bytes = block->bytes,
            .requested_bytes = kind == PL_PIECE_LIVE ? block->requested_bytes : 0,
            .awaited_bytes = block->state == PL_TORCH_PENDING ? block->requested_bytes : 0,
            .stream = block->stream,
            .segment_stream = block->stream,
            .kind = kind,
            .is_first = is_first,
            .is_small = block->pool->index == PLEAT_SIZES_SMALL,
        };
        is_first = false;
        see(context, &piece);
    }
}

static void visit(pl_cache *c, void (*see)(void *context, const pl_piece *piece), void *context)
{
    const pl_torch *t = pl_torch_of(&c->base);
    for (pl_tree_node *node = pl_tree_first(&t->segments); node; node = pl_tree_next(node)) {
        visit_segment(PL_TREE_ENTRY(node, pl_torch_segment, node), see, context);
    }
}

/* ---- the two caches -------------------------------------------------------------------------- */

static const pl_cache_kind kind = {
    .record = record,
    .query = query,
    .release_all = release_all,
    .release = give_back,
    .end_capture = end_capture,
    .tell_stats = tell_stats,
    .visit = visit,
    .check = pl_torch_check,
    .limit_waits = false,
};

static pleat_status create(pl_device *dev, const pl_allocator_options *options,
                           const pl_allocator_ops *ops, const pl_torch_source *source,
                           pl_allocator **out)
{
    pl_torch_options settled = pl_torch_own(options);
    pl_cache *c = NULL;
    pleat_status st = pl_torch_settle_options(&settled);
    st = st == PLEAT_OK && !pl_rounding_is_good(options->roundup_divisions) ? PLEAT_ECONF : st;
    if (st == PLEAT_OK && source->has_pages) {
        st = pl_torch_settle_pages(&settled, pl_device_granule_bytes(dev));
    }
    if (st == PLEAT_OK) {
        st = pl_cache_create(sizeof(pl_torch), ops, &kind, dev, options, &c);
    }
    if (st != PLEAT_OK) {
        return st;
    }
    pl_torch *t = pl_torch_of(&c->base);
    t->options = settled;
    memcpy(t->roundup_divisions, options->roundup_divisions, sizeof t->roundup_divisions);
    t->source = source;
    t->has_pages = source->has_pages;
    t->fraction_bytes = pl_torch_fraction_bytes(&settled, pl_device_total_bytes(dev));
    pl_torch_pools_init(t);
    if (t->has_pages) {
        t->pools[PLEAT_SIZES_SMALL].page_bytes = settled.expandable_small_page_bytes;
        t->pools[PLEAT_SIZES_LARGE].page_bytes = settled.expandable_large_page_bytes;
    }
    *out = &c->base;
    return PLEAT_OK;
}

static pleat_status native_create(pl_device *dev, const pl_allocator_options *options,
                                  pl_allocator **out)
{
    return create(dev, options, &pl_torch_native_ops, &pl_torch_linear, out);
}

static pleat_status expandable_create(pl_device *dev, const pl_allocator_options *options,
                                      pl_allocator **out)
{
    if (!pl_device_has_vmm(dev)) {
        return PLEAT_ENOVMM;
    }
    return create(dev, options, &pl_torch_expandable_ops, &pl_torch_pages, out);
}

static void read_cache_options(const pl_allocator_options *options, pl_cache_options *out)
{
    const pl_torch_options own = pl_torch_own(options);

    *out = (pl_cache_options){
        .max_split_bytes = own.max_split_bytes,
        .garbage_collection_threshold = own.garbage_collection_threshold,
        .memory_fraction = own.per_process_memory_fraction,
    };
}

/* clang-format off */
#define COMMON_OPS                        \
    .options = &pl_torch_option_table,    \
    .read_cache_options = read_cache_options, \
    .alloc = torch_alloc,                 \
    .free = torch_free,                   \
    .set_limit = pl_cache_set_limit,      \
    PL_CACHE_OPS
/* clang-format on */

const pl_allocator_ops pl_torch_native_ops = {
    .name = "torch-native",
    .needs_vmm = false,
    .create = native_create,
    COMMON_OPS,
};

const pl_allocator_ops pl_torch_expandable_ops = {
    .name = "torch-expandable",
    .needs_vmm = true,
    .create = expandable_create,
    COMMON_OPS,
};
