/* torch_check.c - the walker: I1 to I8 of torch_cache.h, recomputed from the segments.
 *
 * Called with the lock held; calls nothing that could drop it. */
#include "segments/classic/torch_cache.h"

/* What the blocks say, for one pool. */
typedef struct tally {
    uint64_t n_live, n_active, n_inactive_split, n_free, n_segments;
    uint64_t live_bytes, active_bytes, inactive_split_bytes, requested_bytes, segment_bytes;
    uint64_t rounding_bytes, n_pending;
} tally;

static bool is_in_tree(const pl_torch_block *block)
{
    return pl_tree_lower_bound(&block->pool->free, &block->node) == &block->node;
}

static int check_block(const pl_torch *t, const pl_torch_block *block, tally *sum)
{
    bool is_live = block->state == PL_TORCH_LIVE || block->state == PL_TORCH_FREEING;
    if (block->state == PL_TORCH_FREE && block->next && block->next->state == PL_TORCH_FREE) {
        return 2;
    }
    if (is_in_tree(block) != (block->state == PL_TORCH_FREE)) {
        return 3;
    }
    if (is_live != (pl_ptrmap_find(&t->live, block->ptr) == block)) {
        return 4;
    }
    if ((block->state == PL_TORCH_PENDING) != (block->n_pending != 0)) {
        return 5;
    }
    sum->n_pending += block->n_pending;
    if (block->state == PL_TORCH_FREE) {
        sum->n_free++;
        if (pl_torch_is_split(block)) {
            sum->n_inactive_split++;
            sum->inactive_split_bytes += block->bytes;
        }
        return 0;
    }
    sum->n_active++;
    sum->active_bytes += block->bytes;
    sum->requested_bytes += block->requested_bytes;
    sum->n_live += is_live;
    sum->rounding_bytes += is_live ? block->bytes - block->requested_bytes : 0;
    sum->live_bytes += is_live ? block->bytes : 0;
    return 0;
}

static int check_segment(const pl_torch *t, const pl_torch_segment *segment,
                         tally sums[PLEAT_N_POOLS])
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

/* Every queued or held use belongs to a pending block; together they are what blocks wait for. */
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
    const pleat_stats *s = &t->stats;
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
}

static int check_totals(const pl_torch *t, tally sums[PLEAT_N_POOLS])
{
    for (unsigned pool = PLEAT_POOL_SMALL; pool < PLEAT_N_POOLS; pool++) {
        if (t->pools[pool].free.count != sums[pool].n_free) {
            return 3;
        }
        add_tally(&sums[PLEAT_POOL_ALL], &sums[pool]);
    }
    const tally *all = &sums[PLEAT_POOL_ALL];
    if (t->live.count != all->n_live) {
        return 4;
    }
    if (all->segment_bytes + t->releasing_bytes != t->reserved_bytes ||
        t->stats.reserved_bytes[PLEAT_POOL_ALL].current != t->reserved_bytes ||
        (t->releasing_bytes == 0 && t->stats.segment[PLEAT_POOL_ALL].current != all->n_segments)) {
        return 6;
    }
    for (unsigned pool = 0; pool < PLEAT_N_POOLS; pool++) {
        if (check_pool_stats(t, pool, &sums[pool]) != 0) {
            return 7;
        }
    }
    if (t->stats.rounding_bytes != all->rounding_bytes) {
        return 7;
    }
    return check_uses(t, all->n_pending);
}

int pl_torch_check(pl_torch *t)
{
    pl_lock_assert(&t->lock);
    if (pl_tree_check(&t->segments) != 0 || pl_ptrmap_check(&t->live) != 0 ||
        pl_tree_check(&t->pools[PLEAT_POOL_SMALL].free) != 0 ||
        pl_tree_check(&t->pools[PLEAT_POOL_LARGE].free) != 0) {
        return 8;
    }
    tally sums[PLEAT_N_POOLS] = { 0 };
    for (pl_tree_node *node = pl_tree_first(&t->segments); node; node = pl_tree_next(node)) {
        int broken = check_segment(t, PL_TREE_ENTRY(node, pl_torch_segment, node), sums);
        if (broken != 0) {
            return broken;
        }
    }
    return check_totals(t, sums);
}
