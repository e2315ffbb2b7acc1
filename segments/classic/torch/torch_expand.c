/* torch_expand.c - the memory of torch-expandable: pages mapped under reserved addresses.
 *
 *   base                                                        base + 9/8 of the device
 *   |## live ##|-- free --|..... unmapped .....|# live #|........... unmapped ...........|
 *   |  page  |  page  |  page  |               |  page  |
 *
 * A request goes to the lowest place that is large enough. A place consists of neighbouring free
 * and unmapped blocks. In the unmapped blocks, whole pages are mapped as the request needs, one
 * chunk each. If a later block of the place fails, the pages mapped before stay, as free memory.
 *
 * Upholds I6 and I9 of torch_cache.h. The allocator's lock is held on entry and exit and dropped
 * around every driver call. Meanwhile the blocks of a place are taken and merge with nothing. The
 * addresses behind the pages to be mapped stay in the pool, for other threads. Host memory is
 * allocated before the driver is asked.
 *
 * PyTorch differs in two ways that are invisible from outside. PyTorch asks the driver for an
 * attribute before each page. PyTorch merges the blocks of a place as they are mapped, not at the
 * end. Source: c10/cuda/CUDACachingAllocator.cpp. ExpandableSegment::map, find_expandable_block,
 * map_block, try_allocate_expandable_block. */
#include <string.h>

#include "segments/classic/torch/torch_cache.h"
#include "vmm/mapping.h"
#include "vmm/range.h"

/* The place of a request, and the pages mapped under it. */
typedef struct place {
    pl_torch_block *first; /* in address order */
    size_t n_blocks;
    size_t n_pages;          /* to be mapped */
    size_t last_bytes;       /* how much of an unmapped last block is mapped */
    size_t page_bytes;       /* of the pool */
    pl_chunk *chunks;        /* room for n_pages */
    pl_torch_block *rest;    /* host memory for a rest of the last block, if there is one */
    size_t n_mapped_pages;   /* in address order */
    size_t n_refused;        /* chunks behind these, refused by the driver */
    pl_torch_block *lost_at; /* the block with a mapping that could not be undone, or NULL */
} place;

static bool is_allocatable(const pl_torch_block *block)
{
    return block && (block->state == PL_TORCH_FREE || block->state == PL_TORCH_UNMAPPED);
}

/* Measure the place that begins at `block`. False when it is too small. */
static bool measure(const pl_torch_request *r, pl_torch_block *block, place *out)
{
    *out = (place){ .first = block, .page_bytes = r->pool->page_bytes };
    for (size_t missing = r->rounded_bytes; missing != 0; block = block->next) {
        if (!is_allocatable(block)) {
            return false;
        }
        size_t used = block->bytes;
        if (!block->is_mapped && missing < used) {
            size_t over = missing % out->page_bytes;
            used = over != 0 ? missing + out->page_bytes - over : missing;
        }
        out->n_blocks++;
        out->n_pages += block->is_mapped ? 0 : used / out->page_bytes;
        out->last_bytes = used;
        missing -= used < missing ? used : missing;
    }
    return true;
}

/* find_expandable_block without its last step, the new segment. */
static bool find_place(const pl_torch_request *r, place *out)
{
    pl_torch_block key = { .stream_index = pl_stream_index(r->stream) };
    pl_tree_node *node = pl_tree_lower_bound(&r->pool->unmapped, &key.node);
    for (; node; node = pl_tree_next(node)) {
        pl_torch_block *block = PL_TREE_ENTRY(node, pl_torch_block, node);
        if (block->stream != r->stream) {
            return false;
        }
        if (measure(r, is_allocatable(block->prev) ? block->prev : block, out)) {
            return true;
        }
    }
    return false;
}

/* Whole pages that span 9/8 of the device. */
static size_t reserve_bytes(const pl_torch *t, const pl_torch_pool *pool)
{
    uint64_t total = pl_device_total_bytes(t->base.dev);
    uint64_t bytes = total + total / 8;
    return (size_t)((bytes + pool->page_bytes - 1) / pool->page_bytes) * pool->page_bytes;
}

static void commit_segment(pl_torch *t, const pl_torch_request *r, pl_torch_segment *segment,
                           pl_torch_block *block, const pl_range *range)
{
    *segment = (pl_torch_segment){ .ptr = range->base, .bytes = range->bytes, .first = block };
    *block = (pl_torch_block){
        .stream_index = pl_stream_index(r->stream),
        .state = PL_TORCH_TAKEN,
        .bytes = range->bytes,
        .counter = t->next_counter++,
        .ptr = range->base,
        .pool = r->pool,
        .segment = segment,
        .stream = r->stream,
    };
    pl_tree_insert(&t->segments, &segment->node);
    pl_torch_put_back(t, block);
}

/* Add a segment, all of it unmapped. A request that is bigger than a whole segment is refused. */
static pleat_status add_segment(pl_torch *t, const pl_torch_request *r)
{
    size_t bytes = reserve_bytes(t, r->pool);
    if (bytes < r->rounded_bytes) {
        return PLEAT_ENOMEM_DEVICE;
    }
    pl_torch_segment *segment = pl_meta_alloc(&t->base.meta, sizeof *segment);
    pl_torch_block *block = pl_meta_alloc(&t->base.meta, sizeof *block);
    pleat_status st = PLEAT_ENOMEM_HOST;
    if (segment && block) {
        pl_lock_release(&t->base.lock);
        pl_range range;
        st = pl_range_reserve(t->base.dev, bytes, bytes, &range);
        pl_lock_acquire(&t->base.lock);
        if (st == PLEAT_OK) {
            commit_segment(t, r, segment, block, &range);
            return PLEAT_OK;
        }
    }
    pl_meta_free(&t->base.meta, segment);
    pl_meta_free(&t->base.meta, block);
    return st;
}

/* Room for the chunks of the segment up to the end of the place. */
static pleat_status reserve_pages(pl_torch *t, const place *p)
{
    pl_torch_segment *segment = p->first->segment;
    pl_torch_block *last = p->first;
    for (size_t i = 1; i < p->n_blocks; i++) {
        last = last->next;
    }
    size_t n = (size_t)(last->ptr + p->last_bytes - segment->ptr + p->page_bytes - 1) /
               p->page_bytes;
    if (n <= segment->n_pages) {
        return PLEAT_OK;
    }
    size_t most = segment->bytes / p->page_bytes;
    size_t room = segment->n_pages * 2 < n ? n : segment->n_pages * 2;
    room = room < most ? room : most;
    pl_chunk *pages = pl_meta_realloc(&t->base.meta, segment->pages, room * sizeof *pages);
    if (!pages) {
        return PLEAT_ENOMEM_HOST;
    }
    memset(pages + segment->n_pages, 0, (room - segment->n_pages) * sizeof *pages);
    segment->pages = pages;
    segment->n_pages = room;
    return PLEAT_OK;
}

/* Allocate the host memory of all later steps, which then need none. */
static pleat_status prepare(pl_torch *t, const pl_torch_request *r, place *p)
{
    pleat_status st = reserve_pages(t, p);
    if (st != PLEAT_OK) {
        return st;
    }
    p->rest = pl_meta_alloc(&t->base.meta, sizeof *p->rest);
    p->chunks = pl_meta_alloc(&t->base.meta, p->n_pages * sizeof *p->chunks);
    st = p->rest && p->chunks ? pl_torch_promise_refused(t, r->pool, p->n_pages)
                              : PLEAT_ENOMEM_HOST;
    if (st != PLEAT_OK) {
        pl_meta_free(&t->base.meta, p->rest);
        pl_meta_free(&t->base.meta, p->chunks);
    }
    return st;
}

/* The blocks of the place leave the pool. An unused rest of the last block stays. */
static void take_place(pl_torch *t, place *p)
{
    pl_torch_block *block = p->first;
    for (size_t left = p->n_blocks; left > 0; left--) {
        pl_torch_block *next = block->next;
        pl_torch_take_out(t, block);
        if (left == 1 && !block->is_mapped && p->last_bytes < block->bytes) {
            pl_torch_cut(block, p->rest, p->last_bytes);
            p->first = p->first == block ? p->rest : p->first;
            pl_torch_put_back(t, block);
            p->rest = NULL;
        }
        block = next;
    }
    t->base.growing_bytes += p->n_pages * p->page_bytes;
}

/* Create and map chunks for one unmapped block, all or nothing. Without the lock. */
static pleat_status map_block(pl_torch *t, place *p, pl_torch_block *block)
{
    pl_chunk *chunks = p->chunks + p->n_mapped_pages;
    size_t n = block->bytes / p->page_bytes;
    size_t n_created = 0;
    pleat_status st = PLEAT_OK;
    while (st == PLEAT_OK && n_created < n) {
        st = pl_chunk_create_sized(t->base.dev, p->page_bytes, &chunks[n_created]);
        n_created += st == PLEAT_OK;
    }
    if (st == PLEAT_OK) {
        st = pl_mapping_map_sized(t->base.dev, block->ptr, chunks, n, p->page_bytes);
    }
    if (st == PLEAT_OK) {
        p->n_mapped_pages += n;
    } else if (st == PLEAT_EPOISONED) {
        p->lost_at = block;
    } else {
        p->n_refused = pl_torch_release_chunks(t, chunks, n_created, p->page_bytes);
    }
    return st;
}

/* Map the unmapped blocks of the place. Runs without the lock: nobody else changes links between
 * taken blocks. */
static pleat_status map_place(pl_torch *t, place *p)
{
    pl_torch_block *block = p->first;
    for (size_t i = 0;;) {
        pleat_status st = block->is_mapped ? PLEAT_OK : map_block(t, p, block);
        if (st != PLEAT_OK || ++i == p->n_blocks) {
            return st;
        }
        block = block->next;
    }
}

static void commit_block(pl_torch *t, const place *p, pl_torch_block *block, size_t n_before)
{
    size_t index = (size_t)(block->ptr - block->segment->ptr) / p->page_bytes;
    size_t n = block->bytes / p->page_bytes;
    memcpy(&block->segment->pages[index], p->chunks + n_before, n * sizeof(pl_chunk));
    block->is_mapped = true;
    t->base.reserved_bytes += block->bytes;
    pl_stats_add(t->base.stats.reserved_bytes, block->pool->index, block->bytes);
    if (block == p->lost_at) {
        block->state = PL_TORCH_LOST;
        t->lost_bytes += block->bytes;
    } else {
        t->base.stats.num_device_alloc++;
        pl_torch_tell(t, PL_ACTION_SEGMENT_MAP, block, block->bytes);
    }
}

/* Note the mapped pages. The blocks stay taken, except a lost one. */
static void commit_place(pl_torch *t, pl_torch_pool *pool, const place *p)
{
    size_t n_committed = 0;
    pl_torch_block *block = p->first;
    for (size_t left = p->n_blocks; left > 0; left--, block = block->next) {
        if (!block->is_mapped && (n_committed < p->n_mapped_pages || block == p->lost_at)) {
            size_t n = block->bytes / p->page_bytes;
            commit_block(t, p, block, n_committed);
            n_committed += n;
        }
    }
    t->base.growing_bytes -= p->n_pages * p->page_bytes;
    pl_torch_note_refused(t, pool, p->n_pages, p->chunks + p->n_mapped_pages, p->n_refused);
}

/* All pages are mapped. Make the place one block, and merge it with free neighbours. */
static pl_torch_block *join(pl_torch *t, const place *p)
{
    pl_torch_block *block = p->first;
    for (size_t i = 1; i < p->n_blocks; i++) {
        pl_torch_absorb_next(t, block);
    }
    pl_torch_merge(t, block);
    return block;
}

/* Return the place to its pool: mapped pages are free memory, all others unmapped as before. */
static void part(pl_torch *t, const place *p)
{
    pl_torch_block *block = p->first;
    for (size_t left = p->n_blocks; left > 0; left--) {
        pl_torch_block *next = block->next;
        if (block->state == PL_TORCH_TAKEN) {
            pl_torch_merge(t, block);
            pl_torch_put_back(t, block);
        }
        block = next;
    }
}

/* Ask once more: the lock was dropped to reserve addresses, and a limit may have been set
 * meanwhile. */
static bool exceeds_limit(const pl_torch *t, const pl_torch_request *r)
{
    uint64_t limit = pl_torch_limit(t);
    uint64_t held = t->base.reserved_bytes + t->base.growing_bytes;
    return limit != 0 && held + r->segment_bytes > limit;
}

pleat_status pl_torch_pages_grow(pl_torch *t, const pl_torch_request *r, pl_torch_block **out)
{
    pl_lock_assert(&t->base.lock);
    place p;
    while (!find_place(r, &p)) {
        pleat_status st = add_segment(t, r);
        if (st != PLEAT_OK) {
            return st;
        }
    }
    pleat_status st = exceeds_limit(t, r) ? PLEAT_ENOMEM_DEVICE : prepare(t, r, &p);
    if (st != PLEAT_OK) {
        return st;
    }
    take_place(t, &p);
    pl_lock_release(&t->base.lock);
    st = map_place(t, &p);
    pl_lock_acquire(&t->base.lock);
    commit_place(t, r->pool, &p);
    if (st == PLEAT_OK) {
        *out = join(t, &p);
    } else {
        part(t, &p);
    }
    pl_meta_free(&t->base.meta, p.rest);
    pl_meta_free(&t->base.meta, p.chunks);
    return st;
}
