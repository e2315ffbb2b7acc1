/* torch_unmap.c - the memory of torch-expandable on its way back to the driver.
 *
 *   |#|---- free ----|##|        pages      |   |   |   |   |
 *   |#|-|........|---|##|        unmapped       |   |   |
 *
 * The whole pages inside each free block are unmapped, after the host has waited for the block's
 * stream, since unmapping waits for nothing. A segment without any memory left goes too. Only the
 * release of everything cached does this: not the collection by age, not the release of oversize
 * blocks.
 *
 * Upholds I6 and I9 of torch_cache.h. The allocator's lock is held on entry and exit and dropped
 * around every driver call. Pages on their way are a taken block meanwhile; the ends of the free
 * block stay free. Memory of a captured stream stays, since a graph may use it. Source:
 * c10/cuda/CUDACachingAllocator.cpp. ExpandableSegment::unmap, release_blocks, unmap_block,
 * release_expandable_segment. */
#include <string.h>

#include "segments/classic/order.h"
#include "segments/classic/torch/torch_cache.h"
#include "vmm/mapping.h"
#include "vmm/range.h"

/* ---- refused chunks -------------------------------------------------------------------------- */

/* Offer each chunk to the driver once more, until the driver refuses one. Chunks are taken out one
 * by one, since other threads may offer chunks, too. */
static void offer_refused(pl_torch *t, pl_torch_pool *pool, uint64_t *released)
{
    for (size_t left = pool->refused.n; left > 0 && pool->refused.n > 0; left--) {
        pl_chunk chunk = pool->refused.chunks[--pool->refused.n];
        pool->refused.n_promised++;
        t->base.reserved_bytes -= pool->page_bytes;
        pl_stats_sub(t->base.stats.reserved_bytes, pool->index, pool->page_bytes);
        pl_lock_release(&t->base.lock);
        size_t n_refused = pl_torch_release_chunks(t, &chunk, 1, pool->page_bytes);
        pl_lock_acquire(&t->base.lock);
        pl_torch_note_refused(t, pool, 1, &chunk, n_refused);
        if (n_refused != 0) {
            return;
        }
        *released += pool->page_bytes;
    }
}

/* ---- pages ----------------------------------------------------------------------------------- */

/* Blocks on their way to the driver, linked by `departing`. */
typedef struct departures {
    pl_torch_block *first;
    pl_torch_block *last;
    uint64_t refused; /* lanes of streams with pages that could not go (order.h) */
} departures;

/* Find the bytes before the first and after the last whole page. False: there is no whole page. */
static bool find_pages(const pl_torch_block *block, size_t *before, size_t *after)
{
    size_t page = block->pool->page_bytes;
    size_t begin = (size_t)(block->ptr - block->segment->ptr);
    size_t end = begin + block->bytes;
    size_t first = (begin + page - 1) / page * page;
    size_t stop = end / page * page;
    *before = first - begin;
    *after = end - stop;
    return first < stop;
}

/* Take the whole pages of a free block. The block's ends stay free. */
static pleat_status take_pages(pl_torch *t, departures *d, pl_torch_block *block, size_t before,
                               size_t after)
{
    pl_torch_block *low = before != 0 ? pl_meta_alloc(&t->base.meta, sizeof *low) : NULL;
    pl_torch_block *middle = after != 0 ? pl_meta_alloc(&t->base.meta, sizeof *middle) : NULL;
    if ((before != 0 && !low) || (after != 0 && !middle)) {
        pl_meta_free(&t->base.meta, low);
        pl_meta_free(&t->base.meta, middle);
        return PLEAT_ENOMEM_HOST;
    }
    pl_torch_take_out(t, block);
    if (low) {
        pl_torch_cut(block, low, before);
        pl_torch_put_back(t, low);
    }
    if (middle) {
        pl_torch_cut(block, middle, block->bytes - after);
        pl_torch_put_back(t, block);
    } else {
        middle = block;
    }
    t->base.releasing_bytes += middle->bytes;
    if (d->last) {
        d->last->departing = middle;
    } else {
        d->first = middle;
    }
    d->last = middle;
    return PLEAT_OK;
}

static pleat_status take_free(pl_torch *t, departures *d, pl_torch_pool *pool, uint64_t keep_bytes)
{
    pl_tree_node *next = NULL;
    for (pl_tree_node *node = pl_tree_first(&pool->free); node; node = next) {
        size_t before;
        size_t after;
        next = pl_tree_next(node);
        pl_torch_block *block = PL_TREE_ENTRY(node, pl_torch_block, node);
        if (t->base.reserved_bytes - t->base.releasing_bytes <= keep_bytes) {
            return PLEAT_OK;
        }
        bool is_taken = (pl_order_lane(block->stream) & d->refused) == 0 &&
                        find_pages(block, &before, &after);
        pleat_status st = is_taken ? take_pages(t, d, block, before, after) : PLEAT_OK;
        if (st != PLEAT_OK) {
            return st;
        }
    }
    return PLEAT_OK;
}

/* For a stream out of reach the host waits for the whole device. */
static pleat_status wait_and_unmap(pl_torch *t, const pl_torch_block *block)
{
    pleat_status st = pl_stream_synchronize(block->stream);
    if (st == PLEAT_ESTREAM) {
        st = pl_device_synchronize(t->base.dev);
    }
    return st == PLEAT_OK ? pl_mapping_unmap(t->base.dev, block->ptr, block->bytes) : st;
}

/* Drops the lock. PLEAT_OK: all is unmapped, and the driver refused the first *n_refused of
 * `chunks`. */
static pleat_status give_back(pl_torch *t, const pl_torch_block *block, pl_chunk *chunks, size_t n,
                              size_t *n_refused)
{
    pl_lock_release(&t->base.lock);
    pleat_status st = wait_and_unmap(t, block);
    if (st == PLEAT_OK) {
        *n_refused = pl_torch_release_chunks(t, chunks, n, block->pool->page_bytes);
    }
    pl_lock_acquire(&t->base.lock);
    return st;
}

/* A segment with one unmapped block gives its addresses back. */
static pleat_status release_segment(pl_torch *t, pl_torch_block *block)
{
    pl_torch_segment *segment = block->segment;
    pl_torch_take_out(t, block);
    pl_tree_remove(&t->segments, &segment->node);
    pl_lock_release(&t->base.lock);
    pl_range range = { .base = segment->ptr, .bytes = segment->bytes };
    pleat_status st = pl_range_release(t->base.dev, range);
    pl_lock_acquire(&t->base.lock);
    if (st != PLEAT_OK) {
        pl_tree_insert(&t->segments, &segment->node);
        pl_torch_put_back(t, block);
        return st;
    }
    pl_meta_free(&t->base.meta, segment->pages);
    pl_meta_free(&t->base.meta, segment);
    pl_meta_free(&t->base.meta, block);
    return PLEAT_OK;
}

/* Note that the pages of `block` are unmapped. */
static pleat_status commit_unmap(pl_torch *t, pl_torch_block *block)
{
    size_t page = block->pool->page_bytes;
    size_t index = (size_t)(block->ptr - block->segment->ptr) / page;
    memset(&block->segment->pages[index], 0, block->bytes / page * sizeof(pl_chunk));
    t->base.reserved_bytes -= block->bytes;
    pl_stats_sub(t->base.stats.reserved_bytes, block->pool->index, block->bytes);
    t->base.stats.num_device_free++;
    pl_torch_tell(t, PL_ACTION_SEGMENT_UNMAP, block, block->bytes);
    block->is_mapped = false;
    pl_torch_merge(t, block);
    pl_torch_put_back(t, block);
    return pl_torch_is_split(block) ? PLEAT_OK : release_segment(t, block);
}

/* Make `block` free again, merged with its ends. A capture is no failure. */
static pleat_status stay(pl_torch *t, pl_torch_block *block, pleat_status why)
{
    pl_torch_merge(t, block);
    pl_torch_put_back(t, block);
    return why == PLEAT_ECAPTURE ? PLEAT_OK : why;
}

/* unmap_block; `chunks` is host memory for the `n` chunks of the block. */
static pleat_status depart_with(pl_torch *t, pl_torch_block *block, pl_chunk *chunks, size_t n,
                                uint64_t *released)
{
    pl_torch_pool *pool = block->pool;
    size_t bytes = block->bytes;
    size_t index = (size_t)(block->ptr - block->segment->ptr) / pool->page_bytes;
    size_t n_refused = 0;
    memcpy(chunks, &block->segment->pages[index], n * sizeof *chunks);
    pleat_status st = give_back(t, block, chunks, n, &n_refused);
    t->base.releasing_bytes -= bytes;
    if (st == PLEAT_OK) {
        st = commit_unmap(t, block);
        *released += bytes - n_refused * pool->page_bytes;
    } else {
        st = stay(t, block, st);
    }
    pl_torch_note_refused(t, pool, n, chunks, n_refused);
    return st == PLEAT_OK && n_refused != 0 ? PLEAT_EDRIVER : st;
}

static pleat_status depart(pl_torch *t, pl_torch_block *block, uint64_t *released)
{
    size_t n = block->bytes / block->pool->page_bytes;
    pl_chunk *chunks = pl_meta_alloc(&t->base.meta, n * sizeof *chunks);
    pleat_status st = chunks ? pl_torch_promise_refused(t, block->pool, n) : PLEAT_ENOMEM_HOST;
    if (st == PLEAT_OK) {
        st = depart_with(t, block, chunks, n, released);
    } else {
        t->base.releasing_bytes -= block->bytes;
        st = stay(t, block, st);
    }
    pl_meta_free(&t->base.meta, chunks);
    return st;
}

static pleat_status depart_all(pl_torch *t, departures *d, uint64_t *released)
{
    pleat_status first = PLEAT_OK;
    while (d->first) {
        pl_torch_block *block = d->first;
        uint64_t lane = pl_order_lane(block->stream);
        uint64_t before = *released;
        d->first = block->departing;
        block->departing = NULL;
        pleat_status st = depart(t, block, released);
        d->refused |= *released == before ? lane : 0;
        first = first == PLEAT_OK ? st : first;
    }
    d->last = NULL;
    return first;
}

/* If a stream's pages cannot go, pages of other streams go instead. */
static pleat_status release_pool(pl_torch *t, pl_torch_pool *pool, uint64_t keep_bytes,
                                 uint64_t *released)
{
    departures d = { 0 };
    uint64_t refused = 0;
    pleat_status first = PLEAT_OK;
    do {
        refused = d.refused;
        pleat_status taken = take_free(t, &d, pool, keep_bytes);
        pleat_status st = depart_all(t, &d, released);
        first = first == PLEAT_OK ? taken : first;
        first = first == PLEAT_OK ? st : first;
    } while (first != PLEAT_ENOMEM_HOST && d.refused != refused);
    return first;
}

static pleat_status release(pl_torch *t, uint64_t keep_bytes, uint64_t *released)
{
    pl_waiter_leave(&t->base.waiter);
    offer_refused(t, &t->pools[PLEAT_SIZES_LARGE], released);
    offer_refused(t, &t->pools[PLEAT_SIZES_SMALL], released);
    pleat_status large = release_pool(t, &t->pools[PLEAT_SIZES_LARGE], keep_bytes, released);
    pleat_status small = release_pool(t, &t->pools[PLEAT_SIZES_SMALL], keep_bytes, released);
    pl_waiter_return(&t->base.waiter, NULL);
    return large != PLEAT_OK ? large : small;
}

/* Pages are not collected by age, and not released as oversize blocks. */
static pleat_status collect(pl_torch *t)
{
    (void)t;
    return PLEAT_OK;
}

static pleat_status release_oversize(pl_torch *t, const pl_torch_request *r, bool *enough)
{
    (void)t;
    (void)r;
    *enough = false;
    return PLEAT_OK;
}

/* ---- the very end ---------------------------------------------------------------------------- */

/* Page by page, since only some of a lost block may be mapped. */
static void unmap_lost(pl_torch *t, const pl_torch_block *block)
{
    size_t page = block->pool->page_bytes;
    for (size_t at = 0; at < block->bytes; at += page) {
        (void)!pl_mapping_unmap(t->base.dev, block->ptr + at, page);
    }
}

/* Unmap each run of mapped blocks in one call. Lost blocks, which may separate runs, are unmapped,
 * too. */
static void unmap_all(pl_torch *t, const pl_torch_segment *segment)
{
    for (const pl_torch_block *block = segment->first; block; block = block->next) {
        if (block->state == PL_TORCH_LOST) {
            unmap_lost(t, block);
        } else if (block->is_mapped) {
            const pl_torch_block *last = block;
            while (last->next && last->next->is_mapped && last->next->state != PL_TORCH_LOST) {
                last = last->next;
            }
            size_t bytes = (size_t)(last->ptr - block->ptr) + last->bytes;
            if (pl_mapping_unmap(t->base.dev, block->ptr, bytes) != PLEAT_OK) {
                (void)!pl_mapping_unmap(t->base.dev, block->ptr, bytes); /* a second and last try */
            }
            block = last;
        }
    }
}

static size_t end_segment(pl_torch *t, pl_torch_segment *segment)
{
    size_t page = segment->first->pool->page_bytes;
    size_t n_refused = 0;
    pl_lock_release(&t->base.lock);
    unmap_all(t, segment);
    for (size_t i = 0; i < segment->n_pages; i++) {
        n_refused += segment->pages[i] != 0 &&
                     pl_chunk_release_sized(t->base.dev, segment->pages[i], page) != PLEAT_OK &&
                     pl_chunk_release_sized(t->base.dev, segment->pages[i], page) != PLEAT_OK;
    }
    pl_range range = { .base = segment->ptr, .bytes = segment->bytes };
    n_refused += pl_range_release(t->base.dev, range) != PLEAT_OK &&
                 pl_range_release(t->base.dev, range) != PLEAT_OK;
    pl_lock_acquire(&t->base.lock);
    pl_meta_free(&t->base.meta, segment->pages);
    pl_torch_forget_segment(t, segment);
    return n_refused;
}

/* Give back the chunks that the driver refused, with two more tries. */
static size_t end(pl_torch *t)
{
    size_t n_refused = 0;
    for (unsigned i = PLEAT_SIZES_SMALL; i < PLEAT_N_SIZES; i++) {
        pl_torch_refused *refused = &t->pools[i].refused;
        pl_lock_release(&t->base.lock);
        refused->n = pl_torch_release_chunks(t, refused->chunks, refused->n,
                                             t->pools[i].page_bytes);
        n_refused += pl_torch_release_chunks(t, refused->chunks, refused->n,
                                             t->pools[i].page_bytes);
        pl_lock_acquire(&t->base.lock);
        pl_meta_free(&t->base.meta, refused->chunks);
    }
    return n_refused;
}

const pl_torch_source pl_torch_pages = {
    .grow = pl_torch_pages_grow,
    .collect = collect,
    .release_oversize = release_oversize,
    .release = release,
    .end_segment = end_segment,
    .end = end,
    .has_pages = true,
};
