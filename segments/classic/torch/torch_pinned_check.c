/* torch_pinned_check.c - the walker, which recomputes I1 to I7 of torch_pinned.h; statistics and
 * visits. Runs with the lock held, and calls nothing that could drop the lock. */
#include "segments/classic/torch/torch_pinned.h"

typedef struct tally {
    uint64_t n_blocks, n_live, n_active, n_cached, n_pending;
    uint64_t bytes, live_bytes, active_bytes, requested_bytes, pending_bytes;
} tally;

void pl_pinned_tell_stats(pl_cache *c, pleat_stats *out)
{
    out->pending_bytes = pl_pinned_of(c)->pending_bytes + c->releasing_bytes;
    out->free_bytes = c->reserved_bytes - out->pending_bytes -
                      c->stats.allocated_bytes[PLEAT_SIZES_ALL].current;
}

void pl_pinned_visit(pl_cache *c, void (*see)(void *context, const pl_piece *piece), void *context)
{
    const pl_pinned *p = pl_pinned_of(c);
    for (pl_tree_node *node = pl_tree_first(&p->by_address); node; node = pl_tree_next(node)) {
        const pl_pinned_block *b = PL_TREE_ENTRY(node, pl_pinned_block, node);
        bool is_live = pl_pinned_is_live(b);
        bool is_pending = b->state == PL_PINNED_PENDING;
        pl_piece piece = {
            .base = b->ptr,
            .bytes = pl_pinned_bytes(b),
            .requested_bytes = is_live ? b->requested_bytes : 0,
            .awaited_bytes = is_pending ? b->requested_bytes : 0,
            .stream = b->stream,
            .kind = is_live      ? PL_PIECE_LIVE
                    : is_pending ? PL_PIECE_PENDING
                                 : PL_PIECE_FREE,
            .is_first = true,
        };
        see(context, &piece);
    }
}

static int check_block(const pl_pinned_block *b, tally *sum)
{
    size_t bytes = pl_pinned_bytes(b);
    bool is_pending = b->state == PL_PINNED_PENDING;
    if (is_pending != (b->n_pending > 0) || (b->uses && !pl_pinned_is_live(b))) {
        return 3;
    }
    sum->n_blocks++;
    sum->bytes += bytes;
    sum->n_cached += b->state == PL_PINNED_CACHED;
    sum->n_pending += b->n_pending;
    sum->pending_bytes += is_pending ? bytes : 0;
    if (b->state != PL_PINNED_CACHED) {
        sum->n_active++;
        sum->active_bytes += bytes;
        sum->requested_bytes += b->requested_bytes;
    }
    sum->n_live += pl_pinned_is_live(b);
    sum->live_bytes += pl_pinned_is_live(b) ? bytes : 0;
    return 0;
}

static int check_lists(const pl_pinned *p, const tally *sum)
{
    uint64_t n_cached = 0;
    for (unsigned i = 0; i < PL_PINNED_CLASSES; i++) {
        for (const pl_pinned_block *b = p->lists[i]; b; b = b->next) {
            if (b->state != PL_PINNED_CACHED || b->class != i || ++n_cached > sum->n_cached) {
                return 2;
            }
        }
    }
    return n_cached == sum->n_cached ? 0 : 2;
}

/* A use of a stream that was being captured is in no queue. */
static int check_queue(const pl_pinned *p, const tally *sum)
{
    size_t n = 0;
    for (const pl_pinned_use *use = p->first; use; use = use->next) {
        if (!use->fence || use->block->state != PL_PINNED_PENDING || ++n > p->n_queued) {
            return 4;
        }
    }
    return n == p->n_queued && n <= sum->n_pending && (n == 0) == (p->last == NULL) ? 0 : 4;
}

static int check_totals(const pl_pinned *p, const tally *sum)
{
    const pleat_stats *s = &p->base.stats;
    if (sum->n_blocks != p->by_address.count) {
        return 1;
    }
    if (sum->bytes + p->base.releasing_bytes != p->base.reserved_bytes ||
        s->reserved_bytes[PLEAT_SIZES_ALL].current != p->base.reserved_bytes) {
        return 5;
    }
    bool is_same = s->allocation[PLEAT_SIZES_ALL].current == sum->n_live &&
                   s->allocated_bytes[PLEAT_SIZES_ALL].current == sum->live_bytes &&
                   s->active[PLEAT_SIZES_ALL].current == sum->n_active &&
                   s->active_bytes[PLEAT_SIZES_ALL].current == sum->active_bytes &&
                   s->requested_bytes[PLEAT_SIZES_ALL].current == sum->requested_bytes &&
                   p->pending_bytes == sum->pending_bytes;
    return is_same ? 0 : 6;
}

int pl_pinned_check(pl_cache *c)
{
    const pl_pinned *p = pl_pinned_of(c);
    tally sum = { 0 };
    pl_lock_assert(&c->lock);
    if (pl_tree_check(&p->by_address) != 0) {
        return 7;
    }
    for (pl_tree_node *node = pl_tree_first(&p->by_address); node; node = pl_tree_next(node)) {
        int broken = check_block(PL_TREE_ENTRY(node, pl_pinned_block, node), &sum);
        if (broken != 0) {
            return broken;
        }
    }
    int broken = check_lists(p, &sum);
    broken = broken == 0 ? check_queue(p, &sum) : broken;
    return broken == 0 ? check_totals(p, &sum) : broken;
}
