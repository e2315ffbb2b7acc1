/* tf_bfc_chunk.c - the order of free chunks, splitting and merging.
 *
 * Upholds I1 to I4 and I7 of tf_bfc.h. Guarded by the allocator's lock, which this file never
 * drops. Never calls the driver, never allocates. Source: bfc_allocator.cc: FindChunkPtr,
 * ShouldSplitChunk, SplitChunk, Merge, TryToCoalesce. */
#include "segments/classic/tf_bfc.h"

static bool is_chunk_before(const pl_tree_node *a, const pl_tree_node *b)
{
    const pl_bfc_chunk *x = PL_TREE_ENTRY(a, const pl_bfc_chunk, node);
    const pl_bfc_chunk *y = PL_TREE_ENTRY(b, const pl_bfc_chunk, node);
    return x->bytes != y->bytes ? x->bytes < y->bytes : x->ptr < y->ptr;
}

static bool is_address_before(const pl_tree_node *a, const pl_tree_node *b)
{
    const pl_bfc_chunk *x = PL_TREE_ENTRY(a, const pl_bfc_chunk, node);
    const pl_bfc_chunk *y = PL_TREE_ENTRY(b, const pl_bfc_chunk, node);
    return x->ptr < y->ptr;
}

pl_bfc_chunk *pl_bfc_live_at(const pl_bfc *b, pleat_devptr ptr)
{
    pl_bfc_chunk key = { .ptr = ptr };
    pl_tree_node *node = pl_tree_floor(&b->live, &key.node);
    pl_bfc_chunk *chunk = node ? PL_TREE_ENTRY(node, pl_bfc_chunk, node) : NULL;
    return chunk && chunk->ptr == ptr ? chunk : NULL;
}

static bool is_region_before(const pl_tree_node *a, const pl_tree_node *b)
{
    const pl_bfc_region *x = PL_TREE_ENTRY(a, const pl_bfc_region, node);
    const pl_bfc_region *y = PL_TREE_ENTRY(b, const pl_bfc_region, node);
    return x->ptr < y->ptr;
}

void pl_bfc_chunks_init(pl_bfc *b)
{
    pl_tree_init(&b->free, is_chunk_before);
    pl_tree_init(&b->regions, is_region_before);
    pl_tree_init(&b->live, is_address_before);
    pl_order_init(&b->order, b->base.dev, &b->base.lock);
}

static pl_tree_node *first_fit_node(const pl_bfc *b, size_t rounded_bytes)
{
    pl_bfc_chunk key = { .bytes = rounded_bytes };
    return pl_tree_lower_bound(&b->free, &key.node);
}

pl_bfc_chunk *pl_bfc_find(const pl_bfc *b, size_t rounded_bytes)
{
    pl_tree_node *node = first_fit_node(b, rounded_bytes);
    return node ? PL_TREE_ENTRY(node, pl_bfc_chunk, node) : NULL;
}

pl_bfc_chunk *pl_bfc_find_quiet(const pl_bfc *b, size_t rounded_bytes, const pl_stream *stream)
{
    for (pl_tree_node *node = first_fit_node(b, rounded_bytes); node; node = pl_tree_next(node)) {
        pl_bfc_chunk *chunk = PL_TREE_ENTRY(node, pl_bfc_chunk, node);
        if (pl_order_unordered(&b->order, &chunk->uses, stream) == 0) {
            return chunk;
        }
    }
    return NULL;
}

bool pl_bfc_should_split(const pl_bfc *b, const pl_bfc_chunk *chunk, size_t rounded_bytes)
{
    return chunk->bytes >= rounded_bytes * 2 || chunk->bytes - rounded_bytes >= b->most_waste_bytes;
}

/* A free chunk stays split or whole. So this function subtracts what pl_bfc_put_back added. */
void pl_bfc_take_out(pl_bfc *b, pl_bfc_chunk *chunk)
{
    pl_lock_assert(&b->base.lock);
    pl_assert(chunk->state == PL_BFC_FREE);
    pl_tree_remove(&b->free, &chunk->node);
    pl_doubt_remove(&chunk->doubt);
    b->free_bytes -= chunk->bytes;
    chunk->state = PL_BFC_TAKEN;
    if (pl_bfc_is_split(chunk)) {
        pl_stats_sub(b->base.stats.inactive_split, PLEAT_SIZES_LARGE, 1);
        pl_stats_sub(b->base.stats.inactive_split_bytes, PLEAT_SIZES_LARGE, chunk->bytes);
    }
}

void pl_bfc_put_back(pl_bfc *b, pl_bfc_chunk *chunk)
{
    pl_lock_assert(&b->base.lock);
    pl_assert(chunk->state == PL_BFC_TAKEN);
    chunk->state = PL_BFC_FREE;
    pl_tree_insert(&b->free, &chunk->node);
    b->free_bytes += chunk->bytes;
    if ((chunk->uses.lanes & (chunk->uses.lanes - 1)) != 0) {
        pl_doubt_add(&b->doubtful, &chunk->doubt);
    }
    if (pl_bfc_is_split(chunk)) {
        pl_stats_add(b->base.stats.inactive_split, PLEAT_SIZES_LARGE, 1);
        pl_stats_add(b->base.stats.inactive_split_bytes, PLEAT_SIZES_LARGE, chunk->bytes);
    }
}

/* `low` absorbs `high`, the chunk behind it. */
static void merge(pl_bfc *b, pl_bfc_chunk *low, pl_bfc_chunk *high)
{
    low->bytes += high->bytes;
    low->uses = pl_order_join(&b->order, &low->uses, &high->uses);
    low->stream = low->stream == high->stream ? low->stream : NULL;
    low->next = high->next;
    if (low->next) {
        low->next->prev = low;
    }
    pl_meta_free(&b->base.meta, high);
}

void pl_bfc_recycle(pl_bfc *b, pl_bfc_chunk *chunk)
{
    pl_bfc_chunk *next = chunk->next;
    if (next && next->state == PL_BFC_FREE) {
        pl_bfc_take_out(b, next);
        merge(b, chunk, next);
    }
    pl_bfc_chunk *prev = chunk->prev;
    if (prev && prev->state == PL_BFC_FREE) {
        pl_bfc_take_out(b, prev);
        merge(b, prev, chunk);
        chunk = prev;
    }
    pl_bfc_put_back(b, chunk);
}

/* The chunk keeps the first `bytes`; `rest` becomes the remainder. */
static void split(pl_bfc_chunk *chunk, pl_bfc_chunk *rest, size_t bytes)
{
    *rest = (pl_bfc_chunk){
        .bytes = chunk->bytes - bytes,
        .ptr = chunk->ptr + bytes,
        .prev = chunk,
        .next = chunk->next,
        .region = chunk->region,
        .state = PL_BFC_TAKEN,
        .stream = chunk->stream,
        .uses = chunk->uses,
    };
    if (rest->next) {
        rest->next->prev = rest;
    }
    chunk->next = rest;
    chunk->bytes = bytes;
}

void pl_bfc_hand_out(pl_bfc *b, pl_bfc_chunk *chunk, pl_bfc_chunk *spare, size_t bytes,
                     pl_stream *stream)
{
    pl_lock_assert(&b->base.lock);
    pl_assert(chunk->state == PL_BFC_TAKEN);
    if (spare) {
        split(chunk, spare, pl_bfc_round(bytes));
        pl_bfc_recycle(b, spare);
    }
    unsigned pool = pl_stats_pool(chunk->bytes);
    chunk->state = PL_BFC_LIVE;
    chunk->stream = stream;
    chunk->requested_bytes = bytes;
    chunk->uses = (pl_order_uses){ .lanes = pl_order_lane(stream) };
    pl_tree_insert(&b->live, &chunk->node);
    pl_stats_add(b->base.stats.allocation, pool, 1);
    pl_stats_add(b->base.stats.allocated_bytes, pool, chunk->bytes);
    pl_stats_add(b->base.stats.active, pool, 1);
    pl_stats_add(b->base.stats.active_bytes, pool, chunk->bytes);
    pl_stats_add(b->base.stats.requested_bytes, pool, bytes);
    b->base.stats.rounding_bytes += chunk->bytes - bytes;
    pl_bfc_tell(b, PL_ACTION_ALLOC, chunk);
}

void pl_bfc_end_live(pl_bfc *b, pl_bfc_chunk *chunk)
{
    pl_lock_assert(&b->base.lock);
    pl_assert(chunk->state == PL_BFC_LIVE);
    unsigned pool = pl_stats_pool(chunk->bytes);
    pl_tree_remove(&b->live, &chunk->node);
    chunk->state = PL_BFC_TAKEN;
    pl_stats_sub(b->base.stats.allocation, pool, 1);
    pl_stats_sub(b->base.stats.allocated_bytes, pool, chunk->bytes);
    b->base.stats.rounding_bytes -= chunk->bytes - chunk->requested_bytes;
    pl_bfc_tell(b, PL_ACTION_FREE_REQUESTED, chunk);
}

void pl_bfc_end_active(pl_bfc *b, pl_bfc_chunk *chunk)
{
    pl_lock_assert(&b->base.lock);
    pl_assert(chunk->state == PL_BFC_TAKEN);
    unsigned pool = pl_stats_pool(chunk->bytes);
    pl_stats_sub(b->base.stats.active, pool, 1);
    pl_stats_sub(b->base.stats.active_bytes, pool, chunk->bytes);
    pl_stats_sub(b->base.stats.requested_bytes, pool, chunk->requested_bytes);
    pl_bfc_tell(b, PL_ACTION_FREE_COMPLETED, chunk);
}
