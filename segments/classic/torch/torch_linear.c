/* torch_linear.c - the memory of torch-native: a segment is one cuMemAlloc.
 *
 * Upholds I6 of torch_cache.h. The allocator's lock is held on entry and exit and dropped around
 * every driver call. A segment that a call works on is in no index meanwhile. A segment on its way
 * to the driver has left the index. A segment on its way from the driver has not entered it. The
 * segment's bytes count against the limit meanwhile, as reserved_bytes or as growing_bytes. Host
 * memory is allocated before the driver is asked.
 *
 * PyTorch relies on the driver's free, which waits for all work of the device. Here this wait is
 * explicit. The host waits for a stream before the stream's first segment departs. So the host sync
 * is counted. Segments of a captured stream stay, since a graph may use them. Source:
 * c10/cuda/CUDACachingAllocator.cpp: alloc_block, garbage_collect_cached_blocks,
 * release_available_cached_blocks, release_blocks. */
#include "segments/classic/order.h"
#include "segments/classic/torch/torch_cache.h"

/* Segments on their way to the driver. The segments are linked by `next` of their blocks. A segment
 * has one block here, so `next` is unused. */
typedef struct departing {
    pl_torch_block *first;
    pl_torch_block *last;
    uint64_t refused; /* lanes of streams with segments that could not go (order.h) */
} departing;

/* The segment at `ptr` becomes one taken block. */
static void commit_segment(pl_torch *t, const pl_torch_request *r, pl_torch_segment *segment,
                           pl_torch_block *block, pleat_devptr ptr)
{
    *segment = (pl_torch_segment){ .ptr = ptr, .bytes = r->segment_bytes, .first = block };
    *block = (pl_torch_block){
        .stream_index = pl_stream_index(r->stream),
        .state = PL_TORCH_TAKEN,
        .is_mapped = true,
        .bytes = r->segment_bytes,
        .counter = t->next_counter++,
        .ptr = ptr,
        .pool = r->pool,
        .segment = segment,
        .stream = r->stream,
    };
    pl_tree_insert(&t->segments, &segment->node);
    t->base.reserved_bytes += block->bytes;
    pl_stats_add(t->base.stats.segment, r->pool->index, 1);
    pl_stats_add(t->base.stats.reserved_bytes, r->pool->index, block->bytes);
    if (block->bytes >= t->options.max_split_bytes) {
        pl_stat_add(&t->base.stats.oversize_segments, 1);
    }
    t->base.stats.num_device_alloc++;
    pl_torch_tell(t, PL_ACTION_SEGMENT_ALLOC, block, block->bytes);
}

/* alloc_block: a new segment with one block. */
static pleat_status grow(pl_torch *t, const pl_torch_request *r, pl_torch_block **out)
{
    pl_torch_segment *segment = pl_meta_alloc(&t->base.meta, sizeof *segment);
    pl_torch_block *block = pl_meta_alloc(&t->base.meta, sizeof *block);
    pleat_status st = PLEAT_ENOMEM_HOST;
    if (segment && block) {
        t->base.growing_bytes += r->segment_bytes;
        pl_lock_release(&t->base.lock);
        pleat_devptr ptr = 0;
        st = pl_device_malloc(t->base.dev, r->segment_bytes, &ptr);
        pl_lock_acquire(&t->base.lock);
        t->base.growing_bytes -= r->segment_bytes;
        if (st == PLEAT_OK) {
            commit_segment(t, r, segment, block, ptr);
            *out = block;
            return PLEAT_OK;
        }
    }
    pl_meta_free(&t->base.meta, segment);
    pl_meta_free(&t->base.meta, block);
    return st;
}

static void take_along(pl_torch *t, departing *d, pl_torch_block *block)
{
    pl_torch_take_out(t, block);
    pl_tree_remove(&t->segments, &block->segment->node);
    pl_torch_tell(t, PL_ACTION_SEGMENT_FREE, block, block->bytes);
    t->base.releasing_bytes += block->bytes;
    if (d->last) {
        d->last->next = block;
    } else {
        d->first = block;
    }
    d->last = block;
}

static void forget_segment(pl_torch *t, pl_torch_block *block)
{
    unsigned pool = block->pool->index;
    t->base.reserved_bytes -= block->bytes;
    pl_stats_sub(t->base.stats.segment, pool, 1);
    pl_stats_sub(t->base.stats.reserved_bytes, pool, block->bytes);
    if (block->bytes >= t->options.max_split_bytes) {
        pl_stat_sub(&t->base.stats.oversize_segments, 1);
    }
    t->base.stats.num_device_free++;
    pl_meta_free(&t->base.meta, block->segment);
    pl_meta_free(&t->base.meta, block);
}

/* Without the lock. For a stream out of reach the host waits for the whole device. */
static pleat_status give_back(pl_torch *t, const pl_torch_block *block, pl_stream **waited_for)
{
    if (block->stream != *waited_for) {
        pleat_status st = pl_stream_synchronize(block->stream);
        if (st == PLEAT_ESTREAM) {
            st = pl_device_synchronize(t->base.dev);
        }
        if (st != PLEAT_OK) {
            return st;
        }
        *waited_for = block->stream;
    }
    return pl_device_mfree(t->base.dev, block->ptr);
}

/* Give the departing segments to the driver. A segment that cannot go returns to its pool. */
static pleat_status depart(pl_torch *t, departing *d, uint64_t *released)
{
    if (!d->first) {
        return PLEAT_OK;
    }
    pleat_status first = PLEAT_OK;
    pl_stream *waited_for = NULL;
    pl_waiter_leave(&t->base.waiter);
    while (d->first) {
        pl_torch_block *block = d->first;
        pl_lock_release(&t->base.lock);
        pleat_status st = give_back(t, block, &waited_for);
        pl_lock_acquire(&t->base.lock);
        d->first = block->next;
        block->next = NULL;
        t->base.releasing_bytes -= block->bytes;
        if (st == PLEAT_OK) {
            *released += block->bytes;
            forget_segment(t, block);
            continue;
        }
        pl_tree_insert(&t->segments, &block->segment->node);
        pl_torch_tell(t, PL_ACTION_SEGMENT_ALLOC, block, block->bytes);
        pl_torch_put_back(t, block);
        d->refused |= pl_order_lane(block->stream);
        if (first == PLEAT_OK && st != PLEAT_ECAPTURE) {
            first = st;
        }
    }
    d->last = NULL;
    pl_waiter_return(&t->base.waiter, NULL);
    return first;
}

/* release_blocks: take unsplit blocks, in the pool's order, while more than keep_bytes stay. */
static void take_unsplit(pl_torch *t, departing *d, pl_torch_pool *pool, uint64_t keep_bytes)
{
    pl_tree_node *next = NULL;
    for (pl_tree_node *node = pl_tree_first(&pool->free); node; node = next) {
        if (t->base.reserved_bytes - t->base.releasing_bytes <= keep_bytes) {
            return;
        }
        next = pl_tree_next(node);
        pl_torch_block *block = PL_TREE_ENTRY(node, pl_torch_block, node);
        if (!pl_torch_is_split(block) && (pl_order_lane(block->stream) & d->refused) == 0) {
            take_along(t, d, block);
        }
    }
}

/* If a stream's segments cannot go, segments of other streams go instead. */
static pleat_status release(pl_torch *t, uint64_t keep_bytes, uint64_t *released)
{
    departing d = { 0 };
    uint64_t refused = 0;
    pleat_status first = PLEAT_OK;
    do {
        refused = d.refused;
        take_unsplit(t, &d, &t->pools[PLEAT_SIZES_LARGE], keep_bytes);
        take_unsplit(t, &d, &t->pools[PLEAT_SIZES_SMALL], keep_bytes);
        pleat_status st = depart(t, &d, released);
        first = first == PLEAT_OK ? st : first;
    } while (d.refused != refused);
    return first;
}

/* Take the largest unsplit blocks of the stream until they have `want_bytes` together. False if
 * they have less. */
static bool take_oversize(pl_torch *t, departing *d, const pl_torch_request *r, size_t want_bytes,
                          pl_tree_node *above)
{
    pl_tree *free = &r->pool->free;
    size_t sum = 0;
    pl_tree_node *node = above ? pl_tree_prev(above) : pl_tree_last(free);
    while (node && sum < want_bytes) {
        pl_torch_block *block = PL_TREE_ENTRY(node, pl_torch_block, node);
        if (block->stream != r->stream || block->bytes < t->options.max_split_bytes) {
            break;
        }
        node = pl_tree_prev(node);
        if (!pl_torch_is_split(block)) {
            sum += block->bytes;
            take_along(t, d, block);
        }
    }
    return sum >= want_bytes;
}

/* release_available_cached_blocks: with a split limit, one block of sufficient size, or several. */
static pleat_status release_oversize(pl_torch *t, const pl_torch_request *r, bool *enough)
{
    *enough = false;
    size_t max_split = t->options.max_split_bytes;
    size_t want = r->rounded_bytes > max_split ? r->rounded_bytes : max_split;
    pl_torch_block key = { .stream_index = pl_stream_index(r->stream), .bytes = want };
    pl_tree_node *node = pl_tree_lower_bound(&r->pool->free, &key.node);
    pl_torch_block *block = node ? PL_TREE_ENTRY(node, pl_torch_block, node) : NULL;
    departing d = { 0 };
    if (block && block->stream == r->stream && !pl_torch_is_split(block)) {
        take_along(t, &d, block);
        *enough = true;
    } else {
        *enough = take_oversize(t, &d, r, want, node);
    }
    uint64_t released = 0;
    return depart(t, &d, &released);
}

/* One pass of the collector: take unsplit blocks of at least average age. */
static uint64_t take_aged(pl_torch_pool *pool, pl_torch *t, departing *d, double *total_age,
                          size_t *count)
{
    double least_age = *total_age / (double)*count;
    uint64_t taken = 0;
    pl_tree_node *next = NULL;
    for (pl_tree_node *node = pl_tree_first(&pool->free); node; node = next) {
        next = pl_tree_next(node);
        pl_torch_block *block = PL_TREE_ENTRY(node, pl_torch_block, node);
        double age = (double)(pool->n_searches - block->born);
        if (!pl_torch_is_split(block) && age >= least_age) {
            taken += block->bytes;
            *total_age -= age;
            *count -= 1;
            take_along(t, d, block);
        }
    }
    return taken;
}

/* garbage_collect_cached_blocks: by age. Pending uses are not waited for. */
static pleat_status collect_garbage(pl_torch *t)
{
    double allowed = t->options.garbage_collection_threshold * (double)pl_torch_limit(t);
    uint64_t threshold = (uint64_t)allowed;
    uint64_t reserved = t->base.reserved_bytes - t->base.releasing_bytes;
    if (reserved <= threshold) {
        return PLEAT_OK;
    }
    pl_torch_pool *pool = &t->pools[PLEAT_SIZES_LARGE];
    double total_age = 0;
    size_t count = 0;
    for (pl_tree_node *node = pl_tree_first(&pool->free); node; node = pl_tree_next(node)) {
        const pl_torch_block *block = PL_TREE_ENTRY(node, pl_torch_block, node);
        if (!pl_torch_is_split(block)) {
            total_age += (double)(pool->n_searches - block->born);
            count++;
        }
    }
    departing d = { 0 };
    uint64_t reclaimed = 0;
    for (uint64_t last = 1; reclaimed < reserved - threshold && last > 0 && count > 0;) {
        last = take_aged(pool, t, &d, &total_age, &count);
        reclaimed += last;
    }
    uint64_t released = 0;
    return depart(t, &d, &released);
}

static size_t end_segment(pl_torch *t, pl_torch_segment *segment)
{
    size_t n_refused = pl_cache_mfree_last(&t->base, segment->ptr);
    pl_torch_forget_segment(t, segment);
    return n_refused;
}

const pl_torch_source pl_torch_linear = {
    .grow = grow,
    .collect = collect_garbage,
    .release_oversize = release_oversize,
    .release = release,
    .end_segment = end_segment,
};
