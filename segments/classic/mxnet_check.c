/* mxnet_check.c - the walker, which recomputes I1 to I9 of mxnet.h; statistics and visits.
 *
 * Runs with the lock held, and calls nothing that could drop the lock. */
#include "segments/classic/mxnet.h"

/* The sums over the blocks of one statistics pool. */
typedef struct tally {
    uint64_t n_live, n_active, n_blocks;
    uint64_t live_bytes, active_bytes, requested_bytes, bytes, rounding_bytes;
} tally;

/* A freed block is pending if not every stream can use it at once. Such a block is held by a
 * capture, in a call's hands, or used by another stream in work not known to be over. */
static bool is_pending(const pl_mxnet *m, const pl_mxnet_block *block)
{
    if (block->state == PL_MXNET_CACHED) {
        return !pl_order_is_own(&block->uses, block->stream) &&
               pl_order_open(&m->order, &block->uses, block->stream) != 0;
    }
    return block->state == PL_MXNET_HELD || block->state == PL_MXNET_TAKEN;
}

/* A block that is neither live nor cached is held, in a call's hands or on its way to the driver.
 * All such blocks are pending. Of the cached blocks only doubtful ones may be pending. */
static uint64_t pending_bytes(pl_mxnet *m)
{
    uint64_t live_bytes = m->base.stats.allocated_bytes[PLEAT_SIZES_ALL].current;
    uint64_t bytes = m->base.reserved_bytes - live_bytes - m->cached_bytes;
    for (pl_doubt *doubt = m->doubtful; doubt;) {
        pl_mxnet_block *block = PL_DOUBT_ENTRY(doubt, pl_mxnet_block, doubt);
        doubt = doubt->next;
        if (is_pending(m, block)) {
            bytes += block->list->bytes;
        } else {
            pl_doubt_remove(&block->doubt); /* a cached block gets no new uses */
        }
    }
    return bytes;
}

/* A block that is neither live nor pending is free, since nothing is split. */
void pl_mxnet_tell_stats(pl_cache *c, pleat_stats *out)
{
    out->pending_bytes = pending_bytes(pl_mxnet_of(&c->base));
    out->free_bytes = c->reserved_bytes - out->pending_bytes -
                      c->stats.allocated_bytes[PLEAT_SIZES_ALL].current;
}

static uint64_t walk_pending_bytes(const pl_mxnet *m)
{
    uint64_t bytes = m->base.releasing_bytes;
    for (pl_tree_node *node = pl_tree_first(&m->by_address); node; node = pl_tree_next(node)) {
        const pl_mxnet_block *block = PL_TREE_ENTRY(node, pl_mxnet_block, node);
        bytes += is_pending(m, block) ? block->list->bytes : 0;
    }
    return bytes;
}

static bool is_allocated(const pl_mxnet_block *block)
{
    return block->state == PL_MXNET_LIVE || block->state == PL_MXNET_FREEING;
}

void pl_mxnet_visit(pl_cache *c, void (*see)(void *context, const pl_piece *piece), void *context)
{
    const pl_mxnet *m = pl_mxnet_of(&c->base);
    for (pl_tree_node *node = pl_tree_first(&m->by_address); node; node = pl_tree_next(node)) {
        const pl_mxnet_block *block = PL_TREE_ENTRY(node, pl_mxnet_block, node);
        bool is_live = is_allocated(block);
        pl_piece_kind kind = is_pending(m, block) ? PL_PIECE_PENDING : PL_PIECE_FREE;
        pl_piece piece = {
            .base = block->ptr,
            .bytes = block->list->bytes,
            .requested_bytes = is_live ? block->requested_bytes : 0,
            .awaited_bytes = block->state == PL_MXNET_HELD ? block->requested_bytes : 0,
            .stream = block->stream,
            .kind = is_live ? PL_PIECE_LIVE : kind,
            .is_first = true,
        };
        see(context, &piece);
    }
}

/* ---- the walker ------------------------------------------------------------------------------ */

static int check_block(const pl_mxnet *m, const pl_mxnet_block *block, tally sums[PLEAT_N_SIZES])
{
    tally *sum = &sums[block->list->pool];
    bool is_held = block->state == PL_MXNET_HELD;
    if (is_held != (block->held != 0)) {
        return 3;
    }
    if (is_allocated(block)
            ? block->uses.number != 0 || (block->uses.lanes & pl_order_lane(block->stream)) == 0
            : block->state != PL_MXNET_TAKEN &&
                  (block->uses.number == 0 || block->uses.number > m->order.clock)) {
        return 4;
    }
    sum->n_blocks++;
    sum->bytes += block->list->bytes;
    if (is_allocated(block) || is_held) {
        sum->n_active++;
        sum->active_bytes += block->list->bytes;
        sum->requested_bytes += block->requested_bytes;
    }
    if (is_allocated(block)) {
        sum->n_live++;
        sum->live_bytes += block->list->bytes;
        sum->rounding_bytes += block->list->bytes - block->requested_bytes;
    }
    return 0;
}

static int check_lists(const pl_mxnet *m)
{
    size_t n_cached = 0;
    size_t n_blocks = 0;
    for (pl_tree_node *node = pl_tree_first(&m->lists); node; node = pl_tree_next(node)) {
        const pl_mxnet_list *list = PL_TREE_ENTRY(node, pl_mxnet_list, node);
        n_blocks += list->n_blocks;
        if (pl_mxnet_list_of(m, list->bytes) != list || list->n_blocks == 0 ||
            list->pool != pl_stats_pool(list->bytes)) {
            return 7;
        }
        for (const pl_mxnet_block *block = list->first; block; block = block->next) {
            if (block->state != PL_MXNET_CACHED || block->list != list ||
                pl_mxnet_block_at(m, block->ptr) != block || ++n_cached > m->n_cached) {
                return 2;
            }
        }
    }
    if (n_blocks != m->by_address.count + m->n_away) {
        return 7;
    }
    return n_cached == m->n_cached ? 0 : 2;
}

/* The held list has all held blocks, and the lists all cached ones. */
static int check_places(const pl_mxnet *m)
{
    size_t n_held = 0;
    size_t n_cached = 0;
    for (pl_tree_node *node = pl_tree_first(&m->by_address); node; node = pl_tree_next(node)) {
        const pl_mxnet_block *block = PL_TREE_ENTRY(node, pl_mxnet_block, node);
        n_held += block->state == PL_MXNET_HELD ? 1 : 0;
        n_cached += block->state == PL_MXNET_CACHED ? 1 : 0;
    }
    for (const pl_mxnet_block *block = m->held; block; block = block->next) {
        if (block->state != PL_MXNET_HELD || n_held-- == 0) {
            return 3;
        }
    }
    if (n_held != 0) {
        return 3;
    }
    return n_cached == m->n_cached ? 0 : 2;
}

static int check_pool_stats(const pleat_stats *s, unsigned pool, const tally *sum)
{
    bool is_same = s->allocation[pool].current == sum->n_live &&
                   s->allocated_bytes[pool].current == sum->live_bytes &&
                   s->requested_bytes[pool].current == sum->requested_bytes &&
                   s->active[pool].current == sum->n_active &&
                   s->active_bytes[pool].current == sum->active_bytes;
    return is_same ? 0 : 6;
}

static void add_tally(tally *total, const tally *sum)
{
    total->n_live += sum->n_live;
    total->n_active += sum->n_active;
    total->n_blocks += sum->n_blocks;
    total->live_bytes += sum->live_bytes;
    total->active_bytes += sum->active_bytes;
    total->requested_bytes += sum->requested_bytes;
    total->bytes += sum->bytes;
    total->rounding_bytes += sum->rounding_bytes;
}

static int check_totals(const pl_mxnet *m, tally sums[PLEAT_N_SIZES])
{
    tally *all = &sums[PLEAT_SIZES_ALL];
    add_tally(all, &sums[PLEAT_SIZES_SMALL]);
    add_tally(all, &sums[PLEAT_SIZES_LARGE]);
    if (all->n_blocks != m->by_address.count || all->n_live != m->n_live) {
        return 1;
    }
    if (all->bytes + m->base.releasing_bytes != m->base.reserved_bytes ||
        m->base.stats.reserved_bytes[PLEAT_SIZES_ALL].current != m->base.reserved_bytes ||
        m->base.stats.segment[PLEAT_SIZES_ALL].current != all->n_blocks + m->n_away) {
        return 5;
    }
    for (unsigned pool = 0; pool < PLEAT_N_SIZES; pool++) {
        if (check_pool_stats(&m->base.stats, pool, &sums[pool]) != 0) {
            return 6;
        }
    }
    return m->base.stats.rounding_bytes == all->rounding_bytes ? 0 : 6;
}

static int check_pending(pl_mxnet *m)
{
    uint64_t bytes = 0;
    for (pl_tree_node *node = pl_tree_first(&m->lists); node; node = pl_tree_next(node)) {
        const pl_mxnet_list *list = PL_TREE_ENTRY(node, pl_mxnet_list, node);
        for (const pl_mxnet_block *block = list->first; block; block = block->next) {
            bytes += list->bytes;
        }
    }
    return bytes == m->cached_bytes && walk_pending_bytes(m) == pending_bytes(m) ? 0 : 9;
}

int pl_mxnet_check_all(pl_cache *c)
{
    pl_lock_assert(&c->lock);
    pl_mxnet *m = pl_mxnet_of(&c->base);
    if (pl_tree_check(&m->by_address) != 0 || pl_tree_check(&m->lists) != 0) {
        return 8;
    }
    tally sums[PLEAT_N_SIZES] = { 0 };
    for (pl_tree_node *node = pl_tree_first(&m->by_address); node; node = pl_tree_next(node)) {
        int broken = check_block(m, PL_TREE_ENTRY(node, pl_mxnet_block, node), sums);
        if (broken != 0) {
            return broken;
        }
    }
    int broken = check_lists(m);
    broken = broken == 0 ? check_places(m) : broken;
    broken = broken == 0 ? check_totals(m, sums) : broken;
    return broken == 0 ? check_pending(m) : broken;
}
