/* torch_check.c - the walker, which recomputes I1 to I9 of torch_cache.h from the segments.
 *
 * Runs with the lock held, and calls nothing that could drop the lock. */
#include "segments/classic/torch/torch_cache.h"

/* The sums over the blocks of one statistics pool. */
typedef struct tally {
    uint64_t n_live, n_active, n_inactive_split, n_free, n_segments;
    uint64_t live_bytes, active_bytes, inactive_split_bytes, requested_bytes, segment_bytes;
    uint64_t rounding_bytes, n_pending, n_unmapped, mapped_bytes, lost_bytes;
} tally;

static bool is_in(const pl_tree *tree, const pl_torch_block *block)
{
    return pl_tree_lower_bound(tree, &block->node) == &block->node;
}

static bool has_a_right_neighbour(const pl_torch_block *block)
{
    bool is_merged = block->state == PL_TORCH_FREE || block->state == PL_TORCH_UNMAPPED;
    return !block->next || !is_merged || block->next->state != block->state;
}

/* Is the block in exactly the index that its state says? */
static int check_place(const pl_torch *t, const pl_torch_block *block)
{
    bool is_live = block->state == PL_TORCH_LIVE || block->state == PL_TORCH_FREEING;
    if (!has_a_right_neighbour(block)) {
        return 2;
    }
    if (is_in(&block->pool->free, block) != (block->state == PL_TORCH_FREE) ||
        is_in(&block->pool->unmapped, block) != (block->state == PL_TORCH_UNMAPPED)) {
        return 3;
    }
    if (is_live != (pl_torch_live_at(t, block->ptr) == block)) {
        return 4;
    }
    return (block->state == PL_TORCH_PENDING) != (block->n_pending != 0) ? 5 : 0;
}

/* I9: an unmapped block has whole pages without chunks; a mapped block has a chunk under each
 * page. */
static int check_pages(const pl_torch_block *block)
{
    const pl_torch_segment *segment = block->segment;
    size_t page = block->pool->page_bytes;
    if (page == 0) {
        return block->is_mapped ? 0 : 9;
    }
    size_t first = (size_t)(block->ptr - segment->ptr) / page;
    size_t end = (size_t)(block->ptr - segment->ptr + block->bytes + page - 1) / page;
    bool is_whole = (block->ptr - segment->ptr) % page == 0 && block->bytes % page == 0;
    if (!block->is_mapped && !is_whole) {
        return 9;
    }
    if (block->is_mapped && end > segment->n_pages) {
        return 9;
    }
    end = end < segment->n_pages ? end : segment->n_pages;
    for (size_t i = first; i < end; i++) {
        if ((segment->pages[i] != 0) != block->is_mapped) {
            return 9;
        }
    }
    return 0;
}

static int check_block(const pl_torch *t, const pl_torch_block *block, tally *sum)
{
    bool is_live = block->state == PL_TORCH_LIVE || block->state == PL_TORCH_FREEING;
    int broken = check_place(t, block);
    broken = broken != 0 ? broken : check_pages(block);
    if (broken != 0) {
        return broken;
    }
    sum->n_pending += block->n_pending;
    sum->mapped_bytes += block->is_mapped ? block->bytes : 0;
    sum->n_unmapped += block->state == PL_TORCH_UNMAPPED;
    sum->lost_bytes += block->state == PL_TORCH_LOST ? block->bytes : 0;
    if (block->state == PL_TORCH_FREE) {
        sum->n_free++;
        if (pl_torch_is_split(block) && !t->has_pages) {
            sum->n_inactive_split++;
            sum->inactive_split_bytes += block->bytes;
        }
    }
    if (is_live || block->state == PL_TORCH_PENDING) {
        sum->n_active++;
        sum->active_bytes += block->bytes;
        sum->requested_bytes += block->requested_bytes;
    }
    sum->n_live += is_live;
    sum->rounding_bytes += is_live ? block->bytes - block->requested_bytes : 0;
    sum->live_bytes += is_live ? block->bytes : 0;
    return 0;
}

static int check_segment(const pl_torch *t, const pl_torch_segment *segment,
                         tally sums[PLEAT_N_SIZES])
{
    const pl_torch_block *last = NULL;
    pleat_devptr at = segment->ptr;
    if (!segment->first) {
        return 1;
    }
    tally *sum = &sums[segment->first->pool->index];
    for (const pl_torch_block *block = segment->first; block; block = block->next) {
        if (block->ptr != at || block->prev != last || block->segment != segment ||
            block->bytes == 0 || block->bytes % PL_TORCH_MIN_BLOCK != 0 ||
            block->pool != segment->first->pool || block->stream != segment->first->stream) {
            return 1;
        }
        int broken = check_block(t, block, sum);
        if (broken != 0) {
            return broken;
        }
        at += block->bytes;
        last = block;
    }
    sum->n_segments++;
    sum->segment_bytes += segment->bytes;
    return at == segment->ptr + segment->bytes ? 0 : 1;
}

/* Every queued or held use belongs to a pending block. Queued uses, held uses and uses on their way
 * to a queue add up to the blocks' pending counts. */
static int check_uses(const pl_torch *t, uint64_t n_pending)
{
    uint64_t n_queued = 0;
    uint64_t n_held = 0;
    for (unsigned i = 0; i < t->n_queues; i++) {
        for (const pl_torch_use *use = t->queues[i].first; use; use = use->next) {
            n_queued++;
            if (!use->fence || use->block->state != PL_TORCH_PENDING ||
                (!use->next && t->queues[i].last != use)) {
                return 5;
            }
        }
    }
    for (const pl_torch_use *use = t->held; use; use = use->next) {
        n_held++;
        if (use->fence || use->block->state != PL_TORCH_PENDING) {
            return 5;
        }
    }
    return n_queued == t->n_queued && n_queued + n_held + t->n_moving == n_pending ? 0 : 5;
}

static int check_pool_stats(const pl_torch *t, unsigned pool, const tally *sum)
{
    const pleat_stats *s = &t->base.stats;
    bool is_same = s->allocation[pool].current == sum->n_live &&
                   s->allocated_bytes[pool].current == sum->live_bytes &&
                   s->active[pool].current == sum->n_active &&
                   s->active_bytes[pool].current == sum->active_bytes &&
                   s->requested_bytes[pool].current == sum->requested_bytes &&
                   s->inactive_split[pool].current == sum->n_inactive_split &&
                   s->inactive_split_bytes[pool].current == sum->inactive_split_bytes;
    return is_same ? 0 : 7;
}

static void add_tally(tally *total, const tally *sum)
{
    total->n_live += sum->n_live;
    total->n_active += sum->n_active;
    total->n_inactive_split += sum->n_inactive_split;
    total->n_free += sum->n_free;
    total->n_segments += sum->n_segments;
    total->live_bytes += sum->live_bytes;
    total->active_bytes += sum->active_bytes;
    total->inactive_split_bytes += sum->inactive_split_bytes;
    total->requested_bytes += sum->requested_bytes;
    total->segment_bytes += sum->segment_bytes;
    total->rounding_bytes += sum->rounding_bytes;
    total->n_pending += sum->n_pending;
    total->mapped_bytes += sum->mapped_bytes;
    total->lost_bytes += sum->lost_bytes;
}

/* I6: bytes held from the driver, and their statistics. */
static int check_reserved(const pl_torch *t, const tally *all)
{
    uint64_t n_segments = t->base.stats.segment[PLEAT_SIZES_ALL].current;
    uint64_t bytes = all->mapped_bytes;
    for (unsigned pool = 0; pool < PLEAT_N_SIZES; pool++) {
        bytes += (uint64_t)t->pools[pool].refused.n * t->pools[pool].page_bytes;
    }
    if (!t->has_pages) {
        bytes = all->segment_bytes + t->base.releasing_bytes;
        if (t->base.releasing_bytes == 0 && n_segments != all->n_segments) {
            return 6;
        }
    }
    bool is_same = bytes == t->base.reserved_bytes && all->lost_bytes == t->lost_bytes &&
                   t->base.stats.reserved_bytes[PLEAT_SIZES_ALL].current == t->base.reserved_bytes;
    return is_same ? 0 : 6;
}

static int check_totals(const pl_torch *t, tally sums[PLEAT_N_SIZES])
{
    for (unsigned pool = PLEAT_SIZES_SMALL; pool < PLEAT_N_SIZES; pool++) {
        if (t->pools[pool].free.count != sums[pool].n_free ||
            t->pools[pool].unmapped.count != sums[pool].n_unmapped) {
            return 3;
        }
        add_tally(&sums[PLEAT_SIZES_ALL], &sums[pool]);
    }
    const tally *all = &sums[PLEAT_SIZES_ALL];
    if (t->live.count != all->n_live) {
        return 4;
    }
    if (check_reserved(t, all) != 0) {
        return 6;
    }
    for (unsigned pool = 0; pool < PLEAT_N_SIZES; pool++) {
        if (check_pool_stats(t, pool, &sums[pool]) != 0) {
            return 7;
        }
    }
    if (t->base.stats.rounding_bytes != all->rounding_bytes) {
        return 7;
    }
    return check_uses(t, all->n_pending);
}

static bool are_trees_sound(const pl_torch *t)
{
    for (unsigned pool = PLEAT_SIZES_SMALL; pool < PLEAT_N_SIZES; pool++) {
        if (pl_tree_check(&t->pools[pool].free) != 0 ||
            pl_tree_check(&t->pools[pool].unmapped) != 0) {
            return false;
        }
    }
    return pl_tree_check(&t->segments) == 0 && pl_tree_check(&t->live) == 0;
}

int pl_torch_check(pl_cache *c)
{
    pl_lock_assert(&c->lock);
    pl_torch *t = pl_torch_of(&c->base);
    if (!are_trees_sound(t)) {
        return 8;
    }
    tally sums[PLEAT_N_SIZES] = { 0 };
    for (pl_tree_node *node = pl_tree_first(&t->segments); node; node = pl_tree_next(node)) {
        int broken = check_segment(t, PL_TREE_ENTRY(node, pl_torch_segment, node), sums);
        if (broken != 0) {
            return broken;
        }
    }
    return check_totals(t, sums);
}
