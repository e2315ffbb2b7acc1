/* torch_pool.c - sizes, the choice of a free block, splitting and merging.
 *
 * Upholds I1..I3 and I7 of torch_cache.h. Guarded by the allocator's lock, which this file never
 * drops. Never calls the driver, never allocates. Source: c10/cuda/CUDACachingAllocator.cpp:
 * round_size, get_pool, get_allocation_size, get_free_block, should_split, alloc_found_block,
 * free_block, try_merge_blocks. */
#include "segments/classic/torch/torch_cache.h"

/* The order of free blocks. Within one segment the counters are equal, so the address decides. */
static bool is_block_before(const pl_tree_node *a, const pl_tree_node *b)
{
    const pl_torch_block *x = PL_TREE_ENTRY(a, const pl_torch_block, node);
    const pl_torch_block *y = PL_TREE_ENTRY(b, const pl_torch_block, node);
    if (x->stream_index != y->stream_index) {
        return x->stream_index < y->stream_index;
    }
    if (x->bytes != y->bytes) {
        return x->bytes < y->bytes;
    }
    if (x->counter != y->counter) {
        return x->counter < y->counter;
    }
    return x->ptr < y->ptr;
}

/* The order of addresses without memory. */
static bool is_address_before(const pl_tree_node *a, const pl_tree_node *b)
{
    const pl_torch_block *x = PL_TREE_ENTRY(a, const pl_torch_block, node);
    const pl_torch_block *y = PL_TREE_ENTRY(b, const pl_torch_block, node);
    if (x->stream_index != y->stream_index) {
        return x->stream_index < y->stream_index;
    }
    return x->ptr < y->ptr;
}

static bool is_live_before(const pl_tree_node *a, const pl_tree_node *b)
{
    const pl_torch_block *x = PL_TREE_ENTRY(a, const pl_torch_block, node);
    const pl_torch_block *y = PL_TREE_ENTRY(b, const pl_torch_block, node);
    return x->ptr < y->ptr;
}

pl_torch_block *pl_torch_live_at(const pl_torch *t, pleat_devptr ptr)
{
    pl_torch_block key = { .ptr = ptr };
    pl_tree_node *node = pl_tree_floor(&t->live, &key.node);
    pl_torch_block *block = node ? PL_TREE_ENTRY(node, pl_torch_block, node) : NULL;
    return block && block->ptr == ptr ? block : NULL;
}

static bool is_segment_before(const pl_tree_node *a, const pl_tree_node *b)
{
    const pl_torch_segment *x = PL_TREE_ENTRY(a, const pl_torch_segment, node);
    const pl_torch_segment *y = PL_TREE_ENTRY(b, const pl_torch_segment, node);
    return x->ptr < y->ptr;
}

void pl_torch_pools_init(pl_torch *t)
{
    pl_tree_init(&t->segments, is_segment_before);
    pl_tree_init(&t->live, is_live_before);
    for (unsigned i = 0; i < PLEAT_N_SIZES; i++) {
        pl_tree_init(&t->pools[i].free, is_block_before);
        pl_tree_init(&t->pools[i].unmapped, is_address_before);
        t->pools[i].index = i;
    }
    t->next_counter = 1; /* the counter of search keys is 0, so keys come first among equal sizes */
}

static size_t round_up(size_t n, size_t step)
{
    return (n + step - 1) / step * step;
}

static size_t segment_size(const pl_torch *t, size_t rounded)
{
    if (rounded <= PL_TORCH_SMALL) {
        return PL_TORCH_SMALL_SEGMENT;
    }
    return rounded < PL_TORCH_MIN_LARGE ? t->options.large_segment_bytes
                                        : round_up(rounded, PL_TORCH_ROUND_LARGE);
}

pl_torch_request pl_torch_request_of(pl_torch *t, size_t bytes, pl_stream *stream)
{
    size_t rounded = pl_rounding_of(t->roundup_divisions, bytes);
    return (pl_torch_request){
        .stream = stream,
        .bytes = bytes,
        .rounded_bytes = rounded,
        .segment_bytes = segment_size(t, rounded),
        .pool = &t->pools[pl_stats_pool(rounded)],
    };
}

/* How large the block can become by mapping the unmapped block behind it. */
static size_t expandable_size(const pl_torch_block *block)
{
    const pl_torch_block *next = block->next;
    return block->bytes + (next && next->state == PL_TORCH_UNMAPPED ? next->bytes : 0);
}

/* Move on in the order of the tree while the next block has the smaller expandable_size. */
static pl_torch_block *prefer_less_expandable(pl_torch_block *block)
{
    for (;;) {
        pl_tree_node *node = pl_tree_next(&block->node);
        pl_torch_block *next = node ? PL_TREE_ENTRY(node, pl_torch_block, node) : NULL;
        if (!next || next->stream != block->stream ||
            expandable_size(next) >= expandable_size(block)) {
            return block;
        }
        block = next;
    }
}

pl_torch_block *pl_torch_find_free(pl_torch *t, const pl_torch_request *r)
{
    pl_lock_assert(&t->base.lock);
    if (pl_torch_collects(t)) {
        r->pool->n_searches++;
    }
    pl_torch_block key = { .stream_index = pl_stream_index(r->stream), .bytes = r->rounded_bytes };
    pl_tree_node *node = pl_tree_lower_bound(&r->pool->free, &key.node);
    pl_torch_block *block = node ? PL_TREE_ENTRY(node, pl_torch_block, node) : NULL;
    if (!block || block->stream != r->stream) {
        return NULL;
    }
    if (t->has_pages) {
        block = prefer_less_expandable(block);
    }
    size_t max_split = t->options.max_split_bytes;
    if (r->rounded_bytes < max_split) {
        return block->bytes < max_split ? block : NULL;
    }
    size_t slack = block->bytes - r->rounded_bytes;
    return slack < t->options.max_non_split_rounding_bytes ? block : NULL;
}

bool pl_torch_should_split(const pl_torch *t, const pl_torch_block *block, size_t rounded_bytes)
{
    size_t remaining = block->bytes - rounded_bytes;
    if (block->pool->index == PLEAT_SIZES_SMALL || t->has_pages) {
        return remaining >= PL_TORCH_MIN_BLOCK;
    }
    return rounded_bytes < t->options.max_split_bytes && remaining > PL_TORCH_SMALL;
}

static pl_tree *tree_of(const pl_torch_block *block)
{
    return block->is_mapped ? &block->pool->free : &block->pool->unmapped;
}

void pl_torch_take_out(pl_torch *t, pl_torch_block *block)
{
    pl_lock_assert(&t->base.lock);
    pl_assert(block->state == (block->is_mapped ? PL_TORCH_FREE : PL_TORCH_UNMAPPED));
    pl_tree_remove(tree_of(block), &block->node);
    block->state = PL_TORCH_TAKEN;
}

void pl_torch_put_back(pl_torch *t, pl_torch_block *block)
{
    pl_lock_assert(&t->base.lock);
    pl_assert(block->state == PL_TORCH_TAKEN);
    block->state = block->is_mapped ? PL_TORCH_FREE : PL_TORCH_UNMAPPED;
    block->born = block->pool->n_searches;
    pl_tree_insert(tree_of(block), &block->node);
}

void pl_torch_cut(pl_torch_block *block, pl_torch_block *low, size_t bytes)
{
    *low = (pl_torch_block){
        .state = PL_TORCH_TAKEN,
        .is_mapped = block->is_mapped,
        .stream_index = block->stream_index,
        .bytes = bytes,
        .counter = block->counter,
        .ptr = block->ptr,
        .prev = block->prev,
        .next = block,
        .pool = block->pool,
        .segment = block->segment,
        .stream = block->stream,
    };
    if (low->prev) {
        low->prev->next = low;
    } else {
        low->segment->first = low;
    }
    block->prev = low;
    block->ptr += bytes;
    block->bytes -= bytes;
}

/* Count a free block that is only a part of a segment, and so cannot go back to the driver. With
 * pages such a block can go back. */
static void add_inactive_split(pl_torch *t, unsigned pool, size_t bytes)
{
    if (!t->has_pages) {
        pl_stats_add(t->base.stats.inactive_split, pool, 1);
        pl_stats_add(t->base.stats.inactive_split_bytes, pool, bytes);
    }
}

static void sub_inactive_split(pl_torch *t, unsigned pool, size_t bytes)
{
    if (!t->has_pages) {
        pl_stats_sub(t->base.stats.inactive_split, pool, 1);
        pl_stats_sub(t->base.stats.inactive_split_bytes, pool, bytes);
    }
}

pl_torch_block *pl_torch_hand_out(pl_torch *t, pl_torch_block *block, pl_torch_block *spare,
                                  const pl_torch_request *r)
{
    pl_lock_assert(&t->base.lock);
    unsigned pool = block->pool->index;
    bool was_split = pl_torch_is_split(block);
    if (block->state == PL_TORCH_FREE) {
        pl_torch_take_out(t, block);
    }
    if (spare) {
        pl_torch_cut(block, spare, r->rounded_bytes);
        pl_torch_put_back(t, block);
        if (!was_split) {
            add_inactive_split(t, pool, block->bytes);
        } else if (!t->has_pages) {
            pl_stats_sub(t->base.stats.inactive_split_bytes, pool, spare->bytes);
        }
        block = spare;
    } else if (was_split) {
        sub_inactive_split(t, pool, block->bytes);
    }
    block->state = PL_TORCH_LIVE;
    block->requested_bytes = r->bytes;
    pl_tree_insert(&t->live, &block->node);
    pl_stats_add(t->base.stats.allocation, pool, 1);
    pl_stats_add(t->base.stats.allocated_bytes, pool, block->bytes);
    pl_stats_add(t->base.stats.active, pool, 1);
    pl_stats_add(t->base.stats.active_bytes, pool, block->bytes);
    pl_stats_add(t->base.stats.requested_bytes, pool, block->requested_bytes);
    t->base.stats.rounding_bytes += block->bytes - block->requested_bytes;
    if (block->bytes >= t->options.max_split_bytes) {
        pl_stat_add(&t->base.stats.oversize_allocations, 1);
    }
    pl_torch_tell(t, PL_ACTION_ALLOC, block, block->requested_bytes);
    return block;
}

/* `block` absorbs a neighbour, which is in no tree. */
static void absorb(pl_torch *t, pl_torch_block *block, pl_torch_block *neighbour)
{
    block->bytes += neighbour->bytes;
    if (neighbour == block->prev) {
        block->ptr = neighbour->ptr;
        block->prev = neighbour->prev;
        if (block->prev) {
            block->prev->next = block;
        } else {
            block->segment->first = block;
        }
    } else {
        block->next = neighbour->next;
        if (block->next) {
            block->next->prev = block;
        }
    }
    pl_meta_free(&t->base.meta, neighbour);
}

/* Let `block` absorb a neighbour that is free, or unmapped if `block` is; the neighbour leaves the
 * statistics. */
static void try_absorb(pl_torch *t, pl_torch_block *block, pl_torch_block *neighbour)
{
    pl_torch_state kind = block->is_mapped ? PL_TORCH_FREE : PL_TORCH_UNMAPPED;
    if (neighbour && neighbour->state == kind) {
        pl_torch_take_out(t, neighbour);
        sub_inactive_split(t, block->pool->index, neighbour->bytes);
        absorb(t, block, neighbour);
    }
}

void pl_torch_merge(pl_torch *t, pl_torch_block *block)
{
    pl_lock_assert(&t->base.lock);
    try_absorb(t, block, block->prev);
    try_absorb(t, block, block->next);
}

void pl_torch_absorb_next(pl_torch *t, pl_torch_block *block)
{
    pl_lock_assert(&t->base.lock);
    pl_assert(block->next->state == PL_TORCH_TAKEN && block->next->is_mapped == block->is_mapped);
    absorb(t, block, block->next);
}

void pl_torch_recycle(pl_torch *t, pl_torch_block *block)
{
    pl_lock_assert(&t->base.lock);
    pl_assert(block->state == PL_TORCH_TAKEN && !block->uses && block->n_pending == 0);
    unsigned pool = block->pool->index;
    pl_stats_sub(t->base.stats.active, pool, 1);
    pl_stats_sub(t->base.stats.active_bytes, pool, block->bytes);
    pl_stats_sub(t->base.stats.requested_bytes, pool, block->requested_bytes);
    pl_torch_tell(t, PL_ACTION_FREE_COMPLETED, block, block->requested_bytes);
    pl_torch_merge(t, block);
    pl_torch_put_back(t, block);
    if (pl_torch_is_split(block)) {
        add_inactive_split(t, pool, block->bytes);
    }
}

void pl_torch_forget_segment(pl_torch *t, pl_torch_segment *segment)
{
    for (pl_torch_block *block = segment->first; block;) {
        pl_torch_block *next = block->next;
        pl_meta_free(&t->base.meta, block);
        block = next;
    }
    pl_meta_free(&t->base.meta, segment);
}
