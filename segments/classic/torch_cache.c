/* torch_cache.c - PyTorch's caching allocators behind the allocator interface.
 *
 * The life of an instance and of a block, and what is told about both. Which block, which steps
 * when there is none and which stream's fence: torch_pool.c, torch_grow.c, torch_event.c.
 * Takes the allocator's lock (rank 20), which those drop around driver calls.
 *
 * Like PyTorch it waits for the GPU without a time limit before it fails (wait_ms does not apply),
 * and whenever a segment goes back to the driver, in trim and set_limit too.
 * Source: c10/cuda/CUDACachingAllocator.cpp. */
#include "segments/classic/torch_cache.h"

static pl_torch *torch_of(pl_allocator *a)
{
    return (pl_torch *)(void *)a;
}

static pleat_status create(pl_device *dev, const pl_allocator_options *options,
                           const pl_allocator_ops *ops, const pl_torch_source *source,
                           pl_allocator **out)
{
    pl_allocator_options settled = *options;
    pl_host host;
    pleat_status st = pl_torch_settle_options(&settled);
    if (st == PLEAT_OK && source->has_pages) {
        st = pl_torch_settle_pages(&settled, pl_device_granule_bytes(dev));
    }
    if (st != PLEAT_OK) {
        return st;
    }
    st = pl_host_init(&host);
    if (st != PLEAT_OK) {
        return st;
    }
    pl_torch *t = pl_host_calloc(&host, 1, sizeof *t);
    if (!t) {
        goto undo_host;
    }
    if (pl_lock_init(&t->lock, PL_RANK_DEVICE) != 0) {
        goto undo_alloc;
    }
    if (pl_waiter_init(&t->waiter, &t->lock, NULL) != 0) {
        goto undo_lock;
    }
    t->base.ops = ops;
    t->source = source;
    t->has_pages = source->has_pages;
    t->dev = dev;
    t->options = settled;
    t->fraction_bytes = pl_torch_fraction_bytes(&settled, pl_device_total_bytes(dev));
    t->host = host;
    pl_torch_pools_init(t);
    if (t->has_pages) {
        t->pools[PLEAT_POOL_SMALL].page_bytes = settled.expandable_small_page_bytes;
        t->pools[PLEAT_POOL_LARGE].page_bytes = settled.expandable_large_page_bytes;
    }
    pl_ptrmap_init(&t->live);
    *out = &t->base;
    return PLEAT_OK;

undo_lock:
    pl_lock_fini(&t->lock);
undo_alloc:
    pl_host_free(&host, t);
undo_host:
    pl_host_fini(&host);
    return PLEAT_ENOMEM_HOST;
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

static pleat_status torch_destroy(pl_allocator *a, bool force, size_t *n_live, size_t *n_leaked)
{
    pl_torch *t = torch_of(a);
    *n_leaked = 0;
    pl_lock_acquire(&t->lock);
    *n_live = t->live.count;
    if (*n_live != 0 && !force) {
        pl_lock_release(&t->lock);
        return PLEAT_EBUSY;
    }
    t->options.observer = NULL;
    /* A fence that cannot be waited for is left to cuMemFree, which waits for everything. */
    (void)pl_torch_wait_uses(t);
    pl_torch_drop_uses(t);
    *n_leaked = t->source->release_all(t);
    pl_ptrmap_fini(&t->live, &t->host);
    pl_lock_release(&t->lock);
    pl_waiter_fini(&t->waiter);
    pl_lock_fini(&t->lock);
    pl_host host = t->host;
    pl_host_free(&host, t);
    size_t n_lost = pl_host_fini(&host);
    pl_assert(n_lost == 0);
    (void)n_lost;
    return PLEAT_OK;
}

/* A cached block that fits, if there is one; *out stays NULL otherwise. */
static pleat_status reuse(pl_torch *t, const pl_torch_request *r, pl_torch_block **out)
{
    pl_torch_block *block = pl_torch_find_free(t, r);
    if (!block) {
        return PLEAT_OK;
    }
    pleat_status st = pl_ptrmap_reserve(&t->live, &t->host, t->n_growing + 1);
    if (st != PLEAT_OK) {
        return st;
    }
    pl_torch_block *spare = NULL;
    if (pl_torch_should_split(t, block, r->rounded_bytes)) {
        spare = pl_host_alloc(&t->host, sizeof *spare);
        if (!spare) {
            return PLEAT_ENOMEM_HOST;
        }
    }
    *out = pl_torch_hand_out(t, block, spare, r);
    return PLEAT_OK;
}

static pleat_status torch_alloc(pl_allocator *a, size_t bytes, pl_stream *stream, pleat_devptr *out)
{
    if (bytes == 0 || !stream) {
        return PLEAT_EINVAL;
    }
    if (bytes > PL_TORCH_MOST) {
        return PLEAT_ESIZE;
    }
    pl_torch *t = torch_of(a);
    pl_lock_acquire(&t->lock);
    pl_torch_poll(t);
    pl_torch_request r = pl_torch_request_of(t, bytes, stream);
    pl_torch_block *block = NULL;
    pleat_status st = reuse(t, &r, &block);
    if (st == PLEAT_OK && !block) {
        st = pl_torch_grow(t, &r, &block);
    }
    if (st == PLEAT_OK) {
        *out = block->ptr;
    }
    pl_lock_release(&t->lock);
    return st;
}

/* The block that holds `ptr`, in any state, or NULL. */
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

/* What to say of an address that is no live block: inside cached memory it was freed before, as far
 * as can be told; inside a live block or outside all segments it never was one. */
static pleat_status not_live(const pl_torch *t, pleat_devptr ptr)
{
    const pl_torch_block *block = block_around(t, ptr);
    bool is_cached = block && block->is_mapped && block->state != PL_TORCH_LIVE;
    return is_cached ? PLEAT_EDOUBLEFREE : PLEAT_EFOREIGN;
}

static pl_torch_block *find_live(const pl_torch *t, pleat_devptr ptr)
{
    pl_torch_block *block = pl_ptrmap_find(&t->live, ptr);
    return block && block->state == PL_TORCH_LIVE ? block : NULL;
}

/* The block stops being allocated; with uses it stays active until they are over. */
static void commit_free(pl_torch *t, pl_torch_block *block)
{
    unsigned pool = block->pool->index;
    pl_ptrmap_remove(&t->live, block->ptr);
    pl_stats_sub(t->stats.allocation, pool, 1);
    pl_stats_sub(t->stats.allocated_bytes, pool, block->bytes);
    t->stats.rounding_bytes -= block->bytes - block->requested_bytes;
    pl_torch_tell(t, PL_ACTION_FREE_REQUESTED, block, block->requested_bytes);
    if (block->bytes >= t->options.max_split_bytes) {
        pl_stat_sub(&t->stats.oversize_allocations, 1);
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

static pleat_status torch_free(pl_allocator *a, pleat_devptr ptr, pl_stream *stream)
{
    pl_torch *t = torch_of(a);
    pl_lock_acquire(&t->lock);
    pl_torch_block *block = find_live(t, ptr);
    pleat_status st = block ? free_live(t, block, stream) : not_live(t, ptr);
    pl_lock_release(&t->lock);
    return st;
}

static pleat_status torch_record_stream(pl_allocator *a, pleat_devptr ptr, pl_stream *stream)
{
    if (!stream) {
        return PLEAT_EINVAL;
    }
    pl_torch *t = torch_of(a);
    bool added = false;
    pl_lock_acquire(&t->lock);
    pl_torch_block *block = find_live(t, ptr);
    pleat_status st = block ? pl_torch_add_use(t, block, stream, &added) : PLEAT_EFOREIGN;
    pl_lock_release(&t->lock);
    return st;
}

static pleat_status torch_query(pl_allocator *a, pleat_devptr ptr, pleat_block_info *out)
{
    pl_torch *t = torch_of(a);
    pl_lock_acquire(&t->lock);
    const pl_torch_block *block = find_live(t, ptr);
    block = block ? block : block_around(t, ptr);
    pleat_status st = block && block->state == PL_TORCH_LIVE ? PLEAT_OK : PLEAT_EFOREIGN;
    if (st == PLEAT_OK) {
        *out = (pleat_block_info){
            .base = block->ptr,
            .bytes = block->bytes,
            .requested_bytes = block->requested_bytes,
            .stream_id = pl_stream_id(block->stream),
            .stream = pl_stream_handle(block->stream),
            .device = pl_device_ordinal(t->dev),
        };
    }
    pl_lock_release(&t->lock);
    return st;
}

/* emptyCache: everything unsplit, as long as more than keep_bytes are reserved. */
static pleat_status torch_trim(pl_allocator *a, uint64_t keep_bytes, bool wait, uint64_t *released)
{
    pl_torch *t = torch_of(a);
    uint64_t n = 0;
    pl_lock_acquire(&t->lock);
    pl_torch_poll(t);
    pleat_status st = pl_torch_release_cached(t, keep_bytes, wait, &n);
    pl_lock_release(&t->lock);
    if (st == PLEAT_OK) {
        *released = n;
    }
    return st;
}

/* setMemoryFraction, but the cache gives way at once and a limit that cannot be kept is refused. */
static pleat_status torch_set_limit(pl_allocator *a, uint64_t bytes)
{
    pl_torch *t = torch_of(a);
    uint64_t released = 0;
    pleat_status st = PLEAT_OK;
    pl_lock_acquire(&t->lock);
    pl_torch_poll(t);
    if (bytes != 0 && t->reserved_bytes > bytes) {
        st = pl_torch_release_cached(t, bytes, false, &released);
    }
    if (st == PLEAT_OK && bytes != 0 && t->reserved_bytes + t->growing_bytes > bytes) {
        st = PLEAT_ENOMEM_DEVICE;
    }
    if (st == PLEAT_OK) {
        t->options.limit_bytes = bytes;
    }
    pl_lock_release(&t->lock);
    return st;
}

static pleat_status torch_release_capture(pl_allocator *a, pl_stream *stream)
{
    if (!stream) {
        return PLEAT_EINVAL;
    }
    pl_torch *t = torch_of(a);
    bool is_capturing = false;
    pleat_status st = pl_stream_is_still_capturing(stream, &is_capturing);
    if (st == PLEAT_OK && is_capturing) {
        return PLEAT_ECAPTURE;
    }
    if (st != PLEAT_OK && st != PLEAT_ESTREAM) {
        return st;
    }
    pl_lock_acquire(&t->lock);
    st = pl_torch_release_held(t, stream);
    pl_lock_release(&t->lock);
    return st;
}

static uint64_t refused_bytes(const pl_torch *t)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < PLEAT_N_POOLS; i++) {
        bytes += (uint64_t)t->pools[i].refused.n * t->pools[i].page_bytes;
    }
    return bytes;
}

/* Segments are not made of granules, so live_granules stays 0. */
static void torch_stats(pl_allocator *a, pleat_stats *out)
{
    pl_torch *t = torch_of(a);
    pl_lock_acquire(&t->lock);
    *out = t->stats;
    uint64_t allocated = t->stats.allocated_bytes[PLEAT_POOL_ALL].current;
    uint64_t active = t->stats.active_bytes[PLEAT_POOL_ALL].current;
    out->resident_bytes = t->reserved_bytes;
    out->idle_bytes = refused_bytes(t);
    out->free_bytes = t->reserved_bytes - active - out->idle_bytes - t->lost_bytes;
    out->pending_bytes = active - allocated;
    out->pinned_granules = t->lost_bytes / pl_device_granule_bytes(t->dev);
    out->metadata_bytes = t->host.bytes;
    pl_stats_read_device(out, t->dev);
    pl_lock_release(&t->lock);
}

static void torch_reset_peaks(pl_allocator *a)
{
    pl_torch *t = torch_of(a);
    pl_lock_acquire(&t->lock);
    pl_stats_reset_peaks(&t->stats);
    pl_lock_release(&t->lock);
}

/* A block that a call holds is nobody's to use: pending, like one whose uses are not over. */
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

/* Most of a segment with pages is the hole at its end; that is of no interest. */
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
            .is_small = block->pool->index == PLEAT_POOL_SMALL,
        };
        is_first = false;
        see(context, &piece);
    }
}

static void torch_visit(pl_allocator *a, void (*see)(void *context, const pl_piece *piece),
                        void *context)
{
    pl_torch *t = torch_of(a);
    pl_lock_acquire(&t->lock);
    for (pl_tree_node *node = pl_tree_first(&t->segments); node; node = pl_tree_next(node)) {
        visit_segment(PL_TREE_ENTRY(node, pl_torch_segment, node), see, context);
    }
    pl_lock_release(&t->lock);
}

static int torch_check(pl_allocator *a)
{
    pl_torch *t = torch_of(a);
    pl_lock_acquire(&t->lock);
    int broken = pl_torch_check(t);
    pl_lock_release(&t->lock);
    return broken;
}

const pl_allocator_ops pl_torch_native_ops = {
    .name = "torch-native",
    .needs_vmm = false,
    .create = native_create,
    .destroy = torch_destroy,
    .alloc = torch_alloc,
    .free = torch_free,
    .record_stream = torch_record_stream,
    .query = torch_query,
    .trim = torch_trim,
    .set_limit = torch_set_limit,
    .release_capture = torch_release_capture,
    .stats = torch_stats,
    .reset_peaks = torch_reset_peaks,
    .visit = torch_visit,
    .check = torch_check,
};

const pl_allocator_ops pl_torch_expandable_ops = {
    .name = "torch-expandable",
    .needs_vmm = true,
    .create = expandable_create,
    .destroy = torch_destroy,
    .alloc = torch_alloc,
    .free = torch_free,
    .record_stream = torch_record_stream,
    .query = torch_query,
    .trim = torch_trim,
    .set_limit = torch_set_limit,
    .release_capture = torch_release_capture,
    .stats = torch_stats,
    .reset_peaks = torch_reset_peaks,
    .visit = torch_visit,
    .check = torch_check,
};
