/* torch_native_grow.c - segments: asked from the driver, and given back when it refuses.
 *
 * Upholds I6 of torch_native.h. Entered and left with the allocator's lock held, which is dropped
 * around every driver call. What a call holds meanwhile is in no index: a segment on its way to the
 * driver has been taken out, one on its way in is not in yet, and its bytes count against the limit
 * as growing_bytes or still as reserved_bytes. Host memory is asked for before the driver is.
 *
 * PyTorch relies on the driver's free to wait for all work of the device. That wait is made
 * explicit here: a stream is synchronised before its first segment departs, which also counts the
 * host sync. Segments of a stream that is being captured stay, since a graph may use them.
 * Source: c10/cuda/CUDACachingAllocator.cpp: malloc, alloc_block, garbage_collect_cached_blocks,
 * release_available_cached_blocks, release_cached_blocks, release_blocks. */
#include "segments/classic/torch_native.h"

/* A call that finds no memory while others are in the driver tries again when they are back, at
 * most this often. */
enum { MOST_ROUNDS = 4 };

/* Host memory of a new segment: itself, its block, and the piece split off if there will be one.
 * And n_changes as it would be now if no other thread had made room since the last try. */
typedef struct fresh {
    pl_torch_segment *segment;
    pl_torch_block *block;
    pl_torch_block *spare;
    uint64_t seen;
} fresh;

/* Segments on their way to the driver. Linked through the blocks' `next`: each is alone. */
typedef struct departing {
    pl_torch_block *first;
    pl_torch_block *last;
} departing;

static void fresh_fini(pl_torch *t, fresh *f)
{
    pl_host_free(&t->host, f->segment);
    pl_host_free(&t->host, f->block);
    pl_host_free(&t->host, f->spare);
}

static pleat_status fresh_init(pl_torch *t, fresh *f)
{
    *f = (fresh){
        .segment = pl_host_alloc(&t->host, sizeof *f->segment),
        .block = pl_host_alloc(&t->host, sizeof *f->block),
        .spare = pl_host_alloc(&t->host, sizeof *f->spare),
    };
    if (!f->segment || !f->block || !f->spare) {
        fresh_fini(t, f);
        return PLEAT_ENOMEM_HOST;
    }
    return PLEAT_OK;
}

/* The segment at `ptr` becomes one taken block. */
static pl_torch_block *commit_segment(pl_torch *t, const pl_torch_request *r, fresh *f,
                                      pleat_devptr ptr)
{
    pl_torch_block *block = f->block;
    *f->segment = (pl_torch_segment){ .ptr = ptr, .bytes = r->segment_bytes, .first = block };
    *block = (pl_torch_block){
        .stream_index = pl_stream_index(r->stream),
        .state = PL_TORCH_TAKEN,
        .bytes = r->segment_bytes,
        .counter = t->next_counter++,
        .ptr = ptr,
        .pool = r->pool,
        .segment = f->segment,
        .stream = r->stream,
    };
    pl_tree_insert(&t->segments, &f->segment->node);
    t->reserved_bytes += block->bytes;
    pl_stats_add(t->stats.segment, r->pool->index, 1);
    pl_stats_add(t->stats.reserved_bytes, r->pool->index, block->bytes);
    if (block->bytes >= t->options.max_split_bytes) {
        pl_stat_add(&t->stats.oversize_segments, 1);
    }
    t->stats.num_device_alloc++;
    f->segment = NULL;
    f->block = NULL;
    return block;
}

static void note_change(pl_torch *t)
{
    t->n_changes++;
    pthread_cond_broadcast(&t->changed);
}

/* alloc_block: one try. */
static pleat_status try_segment(pl_torch *t, const pl_torch_request *r, fresh *f,
                                pl_torch_block **out)
{
    uint64_t limit = t->options.limit_bytes;
    f->seen = t->n_changes;
    if (limit != 0 && t->reserved_bytes + t->growing_bytes + r->segment_bytes > limit) {
        return PLEAT_ENOMEM_DEVICE;
    }
    t->growing_bytes += r->segment_bytes;
    t->n_out++;
    pl_lock_release(&t->lock);
    pleat_devptr ptr = 0;
    pleat_status st = pl_device_malloc(t->dev, r->segment_bytes, &ptr);
    pl_lock_acquire(&t->lock);
    t->n_out--;
    t->growing_bytes -= r->segment_bytes;
    note_change(t);
    f->seen++;
    if (st == PLEAT_OK) {
        *out = commit_segment(t, r, f, ptr);
    }
    return st;
}

static void take_along(pl_torch *t, departing *d, pl_torch_block *block)
{
    pl_torch_take_out(t, block);
    pl_tree_remove(&t->segments, &block->segment->node);
    t->releasing_bytes += block->bytes;
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
    t->reserved_bytes -= block->bytes;
    pl_stats_sub(t->stats.segment, pool, 1);
    pl_stats_sub(t->stats.reserved_bytes, pool, block->bytes);
    if (block->bytes >= t->options.max_split_bytes) {
        pl_stat_sub(&t->stats.oversize_segments, 1);
    }
    t->stats.num_device_free++;
    pl_host_free(&t->host, block->segment);
    pl_host_free(&t->host, block);
}

/* Without the lock. A stream that cannot be waited for, since it was destroyed or is another
 * thread's own, is left to the driver's free. */
static pleat_status give_back(pl_torch *t, const pl_torch_block *block, pl_stream **waited_for)
{
    if (block->stream != *waited_for) {
        pleat_status st = pl_stream_synchronize(block->stream);
        if (st != PLEAT_OK && st != PLEAT_ESTREAM) {
            return st;
        }
        *waited_for = block->stream;
    }
    return pl_device_mfree(t->dev, block->ptr);
}

/* Give the departing segments to the driver; those that cannot go return to their pools. */
static pleat_status depart(pl_torch *t, departing *d, uint64_t *released)
{
    if (!d->first) {
        return PLEAT_OK;
    }
    pleat_status first = PLEAT_OK;
    pl_stream *waited_for = NULL;
    t->n_out++;
    while (d->first) {
        pl_torch_block *block = d->first;
        pl_lock_release(&t->lock);
        pleat_status st = give_back(t, block, &waited_for);
        pl_lock_acquire(&t->lock);
        d->first = block->next;
        block->next = NULL;
        t->releasing_bytes -= block->bytes;
        if (st == PLEAT_OK) {
            *released += block->bytes;
            forget_segment(t, block);
            continue;
        }
        pl_tree_insert(&t->segments, &block->segment->node);
        pl_torch_put_back(t, block);
        if (first == PLEAT_OK && st != PLEAT_ECAPTURE) {
            first = st;
        }
    }
    t->n_out--;
    note_change(t);
    return first;
}

/* release_blocks: what is unsplit, in the pool's order. */
static void take_unsplit(pl_torch *t, departing *d, pl_torch_pool *pool, uint64_t keep_bytes)
{
    pl_tree_node *next = NULL;
    for (pl_tree_node *node = pl_tree_first(&pool->free); node; node = next) {
        if (t->reserved_bytes - t->releasing_bytes <= keep_bytes) {
            return;
        }
        next = pl_tree_next(node);
        pl_torch_block *block = PL_TREE_ENTRY(node, pl_torch_block, node);
        if (!pl_torch_is_split(block)) {
            take_along(t, d, block);
        }
    }
}

pleat_status pl_torch_release_cached(pl_torch *t, uint64_t keep_bytes, bool wait,
                                     uint64_t *released)
{
    pl_lock_assert(&t->lock);
    pleat_status st = PLEAT_OK;
    if (wait) {
        t->stats.num_sync_all_streams++;
        st = pl_torch_wait_uses(t);
    }
    departing d = { 0 };
    take_unsplit(t, &d, &t->pools[PLEAT_POOL_LARGE], keep_bytes);
    take_unsplit(t, &d, &t->pools[PLEAT_POOL_SMALL], keep_bytes);
    pleat_status freed = depart(t, &d, released);
    return st == PLEAT_OK ? freed : st;
}

/* The largest blocks of the stream, until they are worth `want_bytes` together. */
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

/* release_available_cached_blocks: with a split limit, one block that is big enough, or several. */
static pleat_status release_available(pl_torch *t, const pl_torch_request *r, bool *enough)
{
    *enough = false;
    size_t max_split = t->options.max_split_bytes;
    if (max_split == SIZE_MAX) {
        return PLEAT_OK;
    }
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

/* One pass of the collector: take unsplit blocks at least as old as the average of those left. */
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

/* garbage_collect_cached_blocks: by age, without waiting for anything. */
static pleat_status collect_garbage(pl_torch *t)
{
    double allowed = t->options.garbage_collection_threshold * (double)t->options.limit_bytes;
    uint64_t threshold = (uint64_t)allowed;
    uint64_t reserved = t->reserved_bytes - t->releasing_bytes;
    if (reserved <= threshold) {
        return PLEAT_OK;
    }
    pl_torch_pool *pool = &t->pools[PLEAT_POOL_LARGE];
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

/* The last resort but waiting: everything cached goes back, then one more try. Not on a stream that
 * is being captured. */
static pleat_status retry_segment(pl_torch *t, const pl_torch_request *r, fresh *f,
                                  pl_torch_block **out)
{
    pl_lock_release(&t->lock);
    bool is_capturing = false;
    pleat_status st = pl_stream_is_capturing(r->stream, &is_capturing);
    pl_lock_acquire(&t->lock);
    if (st != PLEAT_OK || is_capturing) {
        return st != PLEAT_OK ? st : PLEAT_ENOMEM_DEVICE;
    }
    uint64_t released = 0;
    st = pl_torch_release_cached(t, 0, true, &released);
    if (st != PLEAT_OK) {
        return st;
    }
    t->stats.num_alloc_retries++;
    return try_segment(t, r, f, out);
}

/* Steps 6 to 11 of malloc. */
static pleat_status new_segment(pl_torch *t, const pl_torch_request *r, fresh *f,
                                pl_torch_block **out)
{
    pleat_status st = pl_torch_collects(t) ? collect_garbage(t) : PLEAT_OK;
    if (st != PLEAT_OK) {
        return st;
    }
    st = try_segment(t, r, f, out);
    if (st != PLEAT_ENOMEM_DEVICE) {
        return st;
    }
    bool enough = false;
    st = release_available(t, r, &enough);
    if (st != PLEAT_OK) {
        return st;
    }
    st = enough ? try_segment(t, r, f, out) : PLEAT_ENOMEM_DEVICE;
    return st == PLEAT_ENOMEM_DEVICE ? retry_segment(t, r, f, out) : st;
}

/* Wait until other threads' driver calls have changed something since the last try. False when
 * nothing has changed and nothing is under way. */
static bool wait_for_others(pl_torch *t, const fresh *f)
{
    while (t->n_changes == f->seen && t->n_out != 0) {
        pl_lock_wait(&t->lock, &t->changed);
    }
    return t->n_changes != f->seen;
}

static pleat_status grow_with(pl_torch *t, const pl_torch_request *r, fresh *f,
                              pl_torch_block **out)
{
    pl_torch_block *block = NULL;
    pleat_status st = new_segment(t, r, f, &block);
    for (int round = 1; st == PLEAT_ENOMEM_DEVICE && round < MOST_ROUNDS; round++) {
        if (!wait_for_others(t, f)) {
            break;
        }
        block = pl_torch_find_free(t, r);
        if (block) {
            pl_torch_take_out(t, block);
            st = PLEAT_OK;
        } else {
            st = new_segment(t, r, f, &block);
        }
    }
    if (st != PLEAT_OK) {
        t->stats.num_ooms += st == PLEAT_ENOMEM_DEVICE;
        return st;
    }
    pl_torch_block *spare = NULL;
    if (pl_torch_should_split(t, block, r->rounded_bytes)) {
        spare = f->spare;
        f->spare = NULL;
    }
    *out = pl_torch_hand_out(t, block, spare, r);
    return PLEAT_OK;
}

pleat_status pl_torch_grow(pl_torch *t, const pl_torch_request *r, pl_torch_block **out)
{
    pl_lock_assert(&t->lock);
    fresh f;
    pleat_status st = fresh_init(t, &f);
    if (st != PLEAT_OK) {
        return st;
    }
    t->n_growing++;
    st = pl_ptrmap_reserve(&t->live, &t->host, t->n_growing);
    if (st == PLEAT_OK) {
        st = grow_with(t, r, &f, out);
    }
    t->n_growing--;
    fresh_fini(t, &f);
    return st;
}

/* What is still running on the streams of this device; as far as they can be waited for. */
static void wait_for_streams(pl_torch *t)
{
    pl_lock_release(&t->lock);
    for (unsigned i = 0; i < pl_stream_count(t->dev); i++) {
        pl_stream *stream = pl_stream_at(t->dev, i);
        if (pl_stream_synchronize(stream) != PLEAT_OK) {
            (void)!pl_stream_synchronize(stream);
        }
    }
    pl_lock_acquire(&t->lock);
}

size_t pl_torch_release_all(pl_torch *t)
{
    pl_lock_assert(&t->lock);
    size_t n_refused = 0;
    if (t->segments.count != 0) {
        wait_for_streams(t);
    }
    for (pl_tree_node *node; (node = pl_tree_first(&t->segments)) != NULL;) {
        pl_torch_segment *segment = PL_TREE_ENTRY(node, pl_torch_segment, node);
        pl_tree_remove(&t->segments, node);
        pl_lock_release(&t->lock);
        n_refused += pl_device_mfree(t->dev, segment->ptr) != PLEAT_OK &&
                     pl_device_mfree(t->dev, segment->ptr) != PLEAT_OK; /* there is no later */
        pl_lock_acquire(&t->lock);
        for (pl_torch_block *block = segment->first; block;) {
            pl_torch_block *next = block->next;
            pl_host_free(&t->host, block);
            block = next;
        }
        pl_host_free(&t->host, segment);
    }
    return n_refused;
}
