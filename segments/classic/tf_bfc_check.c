/* tf_bfc_check.c - the walker, which recomputes I1 to I9 of tf_bfc.h; statistics and visits.
 *
 * Runs with the lock held, and calls nothing that could drop the lock. */
#include "segments/classic/tf_bfc.h"

/* The sums over the chunks of one statistics pool. */
typedef struct tally {
    uint64_t n_live, n_active, n_free, n_split, n_held;
    uint64_t live_bytes, active_bytes, requested_bytes, split_bytes, rounding_bytes;
} tally;

typedef struct census {
    tally pools[PLEAT_N_SIZES];
    uint64_t n_regions, region_bytes;
} census;

static const pl_bfc_region *region_of(const pl_tree_node *node)
{
    return PL_TREE_ENTRY(node, const pl_bfc_region, node);
}

static bool is_allocated(const pl_bfc_chunk *chunk)
{
    return chunk->state == PL_BFC_LIVE || chunk->state == PL_BFC_FREEING;
}

/* A freed chunk is pending if no stream can use it without a wait. It is held by a capture, in a
 * call's hands, or used by several streams in work not known to be over. */
static bool is_pending(const pl_bfc *b, const pl_bfc_chunk *chunk)
{
    if (chunk->state == PL_BFC_FREE) {
        uint64_t open = pl_order_open(&b->order, &chunk->uses, NULL);
        return (open & (open - 1)) != 0;
    }
    return chunk->state == PL_BFC_HELD || chunk->state == PL_BFC_TAKEN;
}

/* A chunk that is neither live nor free is held, in a call's hands or on its way to the driver. All
 * such chunks are pending. Of the free chunks only doubtful ones may be pending. */
static uint64_t pending_bytes(pl_bfc *b)
{
    uint64_t live_bytes = b->base.stats.allocated_bytes[PLEAT_SIZES_ALL].current;
    uint64_t bytes = b->base.reserved_bytes - live_bytes - b->free_bytes;
    for (pl_doubt *doubt = b->doubtful; doubt;) {
        pl_bfc_chunk *chunk = PL_DOUBT_ENTRY(doubt, pl_bfc_chunk, doubt);
        doubt = doubt->next;
        if (is_pending(b, chunk)) {
            bytes += chunk->bytes;
        } else {
            pl_doubt_remove(&chunk->doubt); /* a free chunk gets no new uses */
        }
    }
    return bytes;
}

void pl_bfc_tell_stats(pl_cache *c, pleat_stats *out)
{
    out->pending_bytes = pending_bytes(pl_bfc_of(&c->base));
    out->free_bytes = c->reserved_bytes - out->pending_bytes -
                      c->stats.allocated_bytes[PLEAT_SIZES_ALL].current;
}

static uint64_t walk_pending_bytes(const pl_bfc *b)
{
    uint64_t bytes = b->base.releasing_bytes;
    for (pl_tree_node *node = pl_tree_first(&b->regions); node; node = pl_tree_next(node)) {
        for (const pl_bfc_chunk *chunk = region_of(node)->first; chunk; chunk = chunk->next) {
            bytes += is_pending(b, chunk) ? chunk->bytes : 0;
        }
    }
    return bytes;
}

void pl_bfc_visit(pl_cache *c, void (*see)(void *context, const pl_piece *piece), void *context)
{
    const pl_bfc *b = pl_bfc_of(&c->base);
    for (pl_tree_node *node = pl_tree_first(&b->regions); node; node = pl_tree_next(node)) {
        for (const pl_bfc_chunk *chunk = region_of(node)->first; chunk; chunk = chunk->next) {
            bool is_live = is_allocated(chunk);
            pl_piece_kind kind = is_pending(b, chunk) ? PL_PIECE_PENDING : PL_PIECE_FREE;
            pl_piece piece = {
                .base = chunk->ptr,
                .bytes = chunk->bytes,
                .requested_bytes = is_live ? chunk->requested_bytes : 0,
                .awaited_bytes = chunk->state == PL_BFC_HELD ? chunk->requested_bytes : 0,
                .stream = chunk->stream,
                .kind = is_live ? PL_PIECE_LIVE : kind,
                .is_first = !chunk->prev,
            };
            see(context, &piece);
        }
    }
}

/* ---- the walker ------------------------------------------------------------------------------ */

static bool is_in_tree(const pl_bfc *b, const pl_bfc_chunk *chunk)
{
    return pl_tree_lower_bound(&b->free, &chunk->node) == &chunk->node;
}

static void count_active(tally *sum, const pl_bfc_chunk *chunk)
{
    sum->n_active++;
    sum->active_bytes += chunk->bytes;
    sum->requested_bytes += chunk->requested_bytes;
    if (is_allocated(chunk)) {
        sum->n_live++;
        sum->live_bytes += chunk->bytes;
        sum->rounding_bytes += chunk->bytes - chunk->requested_bytes;
    } else {
        sum->n_held++;
    }
}

static int check_chunk(const pl_bfc *b, const pl_bfc_chunk *chunk, census *c)
{
    bool is_free = chunk->state == PL_BFC_FREE;
    bool is_held = chunk->state == PL_BFC_HELD;
    if (is_free && chunk->next && chunk->next->state == PL_BFC_FREE) {
        return 2;
    }
    if (is_in_tree(b, chunk) != is_free) {
        return 3;
    }
    if ((pl_bfc_live_at(b, chunk->ptr) == chunk) != is_allocated(chunk)) {
        return 4;
    }
    if (is_held != (chunk->held != 0)) {
        return 5;
    }
    if (is_allocated(chunk) || is_held) {
        count_active(&c->pools[pl_stats_pool(chunk->bytes)], chunk);
    }
    tally *large = &c->pools[PLEAT_SIZES_LARGE];
    large->n_free += is_free ? 1 : 0;
    if (is_free && pl_bfc_is_split(chunk)) {
        large->n_split++;
        large->split_bytes += chunk->bytes;
    }
    return 0;
}

static int check_region(const pl_bfc *b, const pl_bfc_region *region, census *c)
{
    const pl_bfc_chunk *last = NULL;
    pleat_devptr at = region->ptr;
    for (const pl_bfc_chunk *chunk = region->first; chunk; chunk = chunk->next) {
        bool is_odd = chunk->bytes % PL_BFC_QUANTUM != 0;
        if (chunk->ptr != at || chunk->prev != last || chunk->region != region ||
            chunk->bytes == 0 || is_odd) {
            return 1;
        }
        int broken = check_chunk(b, chunk, c);
        if (broken != 0) {
            return broken;
        }
        at += chunk->bytes;
        last = chunk;
    }
    c->n_regions++;
    c->region_bytes += region->bytes;
    return at == region->ptr + region->bytes ? 0 : 1;
}

static int check_held(const pl_bfc *b, uint64_t n_held)
{
    for (const pl_bfc_chunk *chunk = b->held; chunk; chunk = chunk->next_held) {
        if (chunk->state != PL_BFC_HELD || n_held-- == 0) {
            return 5;
        }
    }
    return n_held == 0 ? 0 : 5;
}

static int check_pool_stats(const pleat_stats *s, unsigned pool, const tally *sum)
{
    bool is_same = s->allocation[pool].current == sum->n_live &&
                   s->allocated_bytes[pool].current == sum->live_bytes &&
                   s->active[pool].current == sum->n_active &&
                   s->active_bytes[pool].current == sum->active_bytes &&
                   s->requested_bytes[pool].current == sum->requested_bytes &&
                   s->inactive_split[pool].current == sum->n_split &&
                   s->inactive_split_bytes[pool].current == sum->split_bytes;
    return is_same ? 0 : 7;
}

static void add_tally(tally *total, const tally *sum)
{
    total->n_live += sum->n_live;
    total->n_active += sum->n_active;
    total->n_free += sum->n_free;
    total->n_split += sum->n_split;
    total->n_held += sum->n_held;
    total->live_bytes += sum->live_bytes;
    total->active_bytes += sum->active_bytes;
    total->requested_bytes += sum->requested_bytes;
    total->split_bytes += sum->split_bytes;
    total->rounding_bytes += sum->rounding_bytes;
}

static int check_totals(const pl_bfc *b, census *c)
{
    tally *all = &c->pools[PLEAT_SIZES_ALL];
    add_tally(all, &c->pools[PLEAT_SIZES_SMALL]);
    add_tally(all, &c->pools[PLEAT_SIZES_LARGE]);
    if (b->free.count != all->n_free) {
        return 3;
    }
    if (b->live.count != all->n_live) {
        return 4;
    }
    if (c->region_bytes + b->base.releasing_bytes != b->base.reserved_bytes ||
        b->base.stats.reserved_bytes[PLEAT_SIZES_ALL].current != b->base.reserved_bytes ||
        (b->base.releasing_bytes == 0 &&
         b->base.stats.segment[PLEAT_SIZES_ALL].current != c->n_regions)) {
        return 6;
    }
    for (unsigned pool = 0; pool < PLEAT_N_SIZES; pool++) {
        if (check_pool_stats(&b->base.stats, pool, &c->pools[pool]) != 0) {
            return 7;
        }
    }
    return b->base.stats.rounding_bytes == all->rounding_bytes ? check_held(b, all->n_held) : 7;
}

static int check_pending(pl_bfc *b)
{
    uint64_t bytes = 0;
    for (pl_tree_node *node = pl_tree_first(&b->free); node; node = pl_tree_next(node)) {
        bytes += PL_TREE_ENTRY(node, const pl_bfc_chunk, node)->bytes;
    }
    return bytes == b->free_bytes && walk_pending_bytes(b) == pending_bytes(b) ? 0 : 9;
}

int pl_bfc_check(pl_cache *cache)
{
    pl_lock_assert(&cache->lock);
    pl_bfc *b = pl_bfc_of(&cache->base);
    if (pl_tree_check(&b->free) != 0 || pl_tree_check(&b->regions) != 0 ||
        pl_tree_check(&b->live) != 0) {
        return 8;
    }
    census c = { 0 };
    for (pl_tree_node *node = pl_tree_first(&b->regions); node; node = pl_tree_next(node)) {
        int broken = check_region(b, region_of(node), &c);
        if (broken != 0) {
            return broken;
        }
    }
    int broken = check_totals(b, &c);
    return broken == 0 ? check_pending(b) : broken;
}
