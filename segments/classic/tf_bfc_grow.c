/* tf_bfc_grow.c - gets and gives back regions, and reuses chunks of other streams.
 *
 * Upholds I6 of tf_bfc.h. The allocator's lock is held on entry and exit and dropped around every
 * driver call. A chunk or region that a call works on is in no index meanwhile. A chunk is taken
 * while the stream is made to wait for its users. A region on its way to the driver has left the
 * tree. A region on its way from the driver has not entered it. Bytes of such regions count as
 * reserved_bytes or growing_bytes. Host memory is allocated before the driver is asked.
 *
 * Regions go back to the driver through depart.h. Source: bfc_allocator.cc: AllocateRawInternal,
 * Extend, DeallocateFreeRegions. */
#include "segments/classic/tf_bfc.h"

typedef struct request {
    pl_stream *stream;
    size_t bytes;         /* as asked */
    size_t rounded_bytes; /* as a chunk */
} request;

/* Host memory for a region, its chunk, and the rest of a split chunk. */
typedef struct fresh {
    pl_bfc_region *region;
    pl_bfc_chunk *chunk;
    pl_bfc_chunk *spare;
    pl_turn turn;
} fresh;

static void fresh_fini(pl_bfc *b, fresh *f)
{
    pl_meta_free(&b->base.meta, f->region);
    pl_meta_free(&b->base.meta, f->chunk);
    pl_meta_free(&b->base.meta, f->spare);
}

static pleat_status fresh_init(pl_bfc *b, fresh *f)
{
    *f = (fresh){
        .region = pl_meta_alloc(&b->base.meta, sizeof *f->region),
        .chunk = pl_meta_alloc(&b->base.meta, sizeof *f->chunk),
        .spare = pl_meta_alloc(&b->base.meta, sizeof *f->spare),
        .turn = pl_waiter_begin(&b->base.waiter),
    };
    if (!f->region || !f->chunk || !f->spare) {
        fresh_fini(b, f);
        return PLEAT_ENOMEM_HOST;
    }
    return PLEAT_OK;
}

/* ---- extend ---------------------------------------------------------------------------------- */

/* The region at `ptr` becomes one taken chunk. */
static pl_bfc_chunk *commit_region(pl_bfc *b, fresh *f, pleat_devptr ptr, size_t bytes)
{
    pl_bfc_chunk *chunk = f->chunk;
    *f->region = (pl_bfc_region){ .ptr = ptr, .bytes = bytes, .first = chunk };
    *chunk = (pl_bfc_chunk){
        .bytes = bytes,
        .ptr = ptr,
        .region = f->region,
        .state = PL_BFC_TAKEN,
    };
    pl_tree_insert(&b->regions, &f->region->node);
    b->base.reserved_bytes += bytes;
    pl_stats_add(b->base.stats.segment, PLEAT_SIZES_LARGE, 1);
    pl_stats_add(b->base.stats.reserved_bytes, PLEAT_SIZES_LARGE, bytes);
    b->base.stats.num_device_alloc++;
    pl_bfc_tell_region(b, PL_ACTION_SEGMENT_ALLOC, f->region);
    f->region = NULL;
    f->chunk = NULL;
    return chunk;
}

static pleat_status ask_driver(pl_bfc *b, size_t bytes, fresh *f, pl_bfc_chunk **out)
{
    b->base.growing_bytes += bytes;
    pl_waiter_leave(&b->base.waiter);
    pl_lock_release(&b->base.lock);
    pleat_devptr ptr = 0;
    pleat_status st = pl_device_malloc(b->base.dev, bytes, &ptr);
    pl_lock_acquire(&b->base.lock);
    pl_waiter_return(&b->base.waiter, &f->turn);
    b->base.growing_bytes -= bytes;
    if (st == PLEAT_OK) {
        *out = commit_region(b, f, ptr, bytes);
    }
    return st;
}

/* A tenth less, rounded up to the quantum, but less in any case; in single precision, as in
 * TensorFlow. */
static size_t back_off(size_t bytes)
{
    size_t less = pl_bfc_round((size_t)((float)bytes * 0.9F));
    return less < bytes ? less : bytes - PL_BFC_QUANTUM;
}

static uint64_t memory_limit(const pl_bfc *b)
{
    return b->base.limit_bytes != 0 ? b->base.limit_bytes : pl_device_total_bytes(b->base.dev);
}

static pleat_status extend(pl_bfc *b, const request *r, fresh *f, pl_bfc_chunk **out)
{
    uint64_t limit = memory_limit(b);
    uint64_t held = b->base.reserved_bytes + b->base.growing_bytes;
    uint64_t available = limit > held ? (limit - held) / PL_BFC_QUANTUM * PL_BFC_QUANTUM : 0;
    pl_waiter_see(&b->base.waiter, &f->turn);
    if (r->rounded_bytes > available) {
        return PLEAT_ENOMEM_DEVICE;
    }
    bool is_raised = false;
    while (r->rounded_bytes > b->region_bytes) {
        b->region_bytes *= 2;
        is_raised = true;
    }
    size_t bytes = b->region_bytes < available ? b->region_bytes : (size_t)available;
    pleat_status st = ask_driver(b, bytes, f, out);
    while (st == PLEAT_ENOMEM_DEVICE && bytes > r->rounded_bytes) {
        bytes = back_off(bytes);
        if (bytes < r->rounded_bytes) {
            break;
        }
        st = ask_driver(b, bytes, f, out);
    }
    if (st == PLEAT_OK && !is_raised && b->region_bytes < PL_CACHE_MOST) {
        b->region_bytes *= 2;
    }
    return st;
}

/* ---- giving back ----------------------------------------------------------------------------- */

static pl_bfc_region *next_region(const pl_bfc_region *region)
{
    pl_tree_node *node = pl_tree_next(&region->node);
    return node ? PL_TREE_ENTRY(node, pl_bfc_region, node) : NULL;
}

static pl_bfc_region *first_region(const pl_bfc *b)
{
    pl_tree_node *node = pl_tree_first(&b->regions);
    return node ? PL_TREE_ENTRY(node, pl_bfc_region, node) : NULL;
}

/* A wholly free region departs as its only chunk. */
static pl_bfc_chunk *leaving(const pl_leaver *leaver)
{
    return PL_LEAVER_ENTRY(leaver, pl_bfc_chunk, leaver);
}

static void pick(pl_cache *c, pl_departing *d)
{
    pl_bfc *b = pl_bfc_of(&c->base);
    pl_bfc_region *next = NULL;
    for (pl_bfc_region *region = first_region(b); region && pl_depart_wants_more(d);
         region = next) {
        next = next_region(region);
        pl_bfc_chunk *chunk = region->first;
        if (pl_bfc_is_whole(chunk) && pl_depart_takes(d, &chunk->uses, chunk->bytes)) {
            pl_bfc_take_out(b, chunk);
            pl_depart_add(d, &chunk->leaver);
        }
    }
}

static uint64_t open_of_free(const pl_cache *c)
{
    const pl_bfc *b = (const pl_bfc *)(const void *)c;
    uint64_t open = 0;
    for (const pl_bfc_region *region = first_region(b); region; region = next_region(region)) {
        const pl_bfc_chunk *chunk = region->first;
        open |= pl_bfc_is_whole(chunk) ? pl_order_open(&b->order, &chunk->uses, NULL) : 0;
    }
    return open;
}

static size_t bytes_of(const pl_leaver *leaver)
{
    return leaving(leaver)->bytes;
}

static const pl_order_uses *uses_of(const pl_leaver *leaver)
{
    return &leaving(leaver)->uses;
}

static void forget_region(pl_bfc *b, pl_bfc_chunk *chunk)
{
    b->base.reserved_bytes -= chunk->bytes;
    pl_stats_sub(b->base.stats.segment, PLEAT_SIZES_LARGE, 1);
    pl_stats_sub(b->base.stats.reserved_bytes, PLEAT_SIZES_LARGE, chunk->bytes);
    b->base.stats.num_device_free++;
    pl_meta_free(&b->base.meta, chunk->region);
    pl_meta_free(&b->base.meta, chunk);
}

/* Give back a region whose only chunk is taken. */
static pleat_status release(pl_cache *c, pl_leaver *leaver)
{
    pl_bfc *b = pl_bfc_of(&c->base);
    pl_bfc_chunk *chunk = leaving(leaver);
    size_t bytes = chunk->bytes;
    pl_tree_remove(&b->regions, &chunk->region->node);
    pl_bfc_tell_region(b, PL_ACTION_SEGMENT_FREE, chunk->region);
    b->base.releasing_bytes += bytes;
    pl_lock_release(&b->base.lock);
    pleat_status st = pl_device_mfree(b->base.dev, chunk->ptr);
    pl_lock_acquire(&b->base.lock);
    b->base.releasing_bytes -= bytes;
    if (st == PLEAT_OK) {
        forget_region(b, chunk);
    } else {
        pl_tree_insert(&b->regions, &chunk->region->node);
        pl_bfc_tell_region(b, PL_ACTION_SEGMENT_ALLOC, chunk->region);
    }
    return st;
}

static void put_back(pl_cache *c, pl_leaver *leaver)
{
    pl_bfc_put_back(pl_bfc_of(&c->base), leaving(leaver));
}

static const pl_depart_kind departure = {
    .pick = pick,
    .open = open_of_free,
    .bytes_of = bytes_of,
    .uses_of = uses_of,
    .release = release,
    .put_back = put_back,
};

pleat_status pl_bfc_release_free(pl_bfc *b, uint64_t keep_bytes, uint32_t wait_ms,
                                 uint64_t *released)
{
    return pl_depart(&b->base, &b->order, &departure, keep_bytes, wait_ms, released);
}

size_t pl_bfc_release_all(pl_cache *c)
{
    pl_lock_assert(&c->lock);
    pl_bfc *b = pl_bfc_of(&c->base);
    size_t n_refused = 0;
    if (b->regions.count != 0) {
        pl_order_wait_all(&b->order);
    }
    for (pl_bfc_region *region; (region = first_region(b)) != NULL;) {
        pl_tree_remove(&b->regions, &region->node);
        n_refused += pl_cache_mfree_last(c, region->ptr);
        for (pl_bfc_chunk *chunk = region->first; chunk;) {
            pl_bfc_chunk *next = chunk->next;
            pl_meta_free(&b->base.meta, chunk);
            chunk = next;
        }
        pl_meta_free(&b->base.meta, region);
    }
    return n_refused;
}

/* ---- a request that a plain fit cannot serve ------------------------------------------------- */

static uint64_t wholly_free_bytes(const pl_bfc *b)
{
    uint64_t bytes = 0;
    for (const pl_bfc_region *region = first_region(b); region; region = next_region(region)) {
        bytes += pl_bfc_is_whole(region->first) ? region->bytes : 0;
    }
    return bytes;
}

/* DeallocateFreeRegions, if that can help. On a stream that is being captured nothing is given
 * back. *done: something was. */
static pleat_status collect(pl_bfc *b, const request *r, fresh *f, bool *done)
{
    uint64_t limit = memory_limit(b);
    uint64_t held = b->base.reserved_bytes + b->base.growing_bytes;
    uint64_t free_bytes = wholly_free_bytes(b);
    *done = false;
    if (!b->options.garbage_collection || free_bytes == 0 ||
        r->rounded_bytes + held > limit + free_bytes) {
        return PLEAT_OK;
    }
    pl_lock_release(&b->base.lock);
    bool is_capturing = false;
    pleat_status st = pl_stream_is_capturing(r->stream, &is_capturing);
    pl_lock_acquire(&b->base.lock);
    if (st != PLEAT_OK || is_capturing) {
        return st;
    }
    uint64_t released = 0;
    st = pl_bfc_release_free(b, 0, UINT32_MAX, &released);
    f->turn.seen++; /* do not count this call's own change */
    *done = released != 0;
    return st;
}

static pleat_status grow(pl_bfc *b, const request *r, fresh *f, pl_bfc_chunk **out)
{
    pleat_status st = extend(b, r, f, out);
    if (st != PLEAT_ENOMEM_DEVICE) {
        return st;
    }
    bool is_collected = false;
    pleat_status collected = collect(b, r, f, &is_collected);
    if (collected != PLEAT_OK || !is_collected) {
        return collected != PLEAT_OK ? collected : st;
    }
    b->base.stats.num_alloc_retries++;
    return extend(b, r, f, out);
}

/* Take the best fit and make the stream wait for the chunk's users. *out stays NULL if no chunk may
 * serve the stream. */
static pleat_status reuse(pl_bfc *b, const request *r, fresh *f, pl_bfc_chunk **out)
{
    pl_bfc_chunk *chunk = pl_bfc_find(b, r->rounded_bytes);
    if (!chunk) {
        return PLEAT_OK;
    }
    pl_bfc_take_out(b, chunk);
    uint64_t lanes = pl_order_unordered(&b->order, &chunk->uses, r->stream);
    /* Count this as a call that makes room. The rest of a later split may be most of the device,
     * and other requests may lack it. */
    pl_waiter_leave(&b->base.waiter);
    pleat_status st = pl_order_after(&b->order, lanes, r->stream);
    pl_waiter_return(&b->base.waiter, &f->turn);
    if (st == PLEAT_OK) {
        *out = chunk; /* the lock is held until the rest is free */
        return PLEAT_OK;
    }
    pl_bfc_recycle(b, chunk);
    if (st != PLEAT_ECAPTURE) {
        return st;
    }
    chunk = pl_bfc_find_quiet(b, r->rounded_bytes, r->stream);
    if (chunk) {
        pl_bfc_take_out(b, chunk);
        *out = chunk;
    }
    return PLEAT_OK;
}

static pleat_status get_with(pl_bfc *b, const request *r, fresh *f, pl_bfc_chunk **out)
{
    pleat_status st;
    do {
        st = reuse(b, r, f, out);
        if (st == PLEAT_OK && !*out) {
            st = grow(b, r, f, out);
        }
    } while (pl_cache_may_try(&b->base, &f->turn, st, r->rounded_bytes));
    return st;
}

pleat_status pl_bfc_get(pl_bfc *b, size_t bytes, pl_stream *stream, pl_bfc_chunk **out)
{
    pl_lock_assert(&b->base.lock);
    request r = { .stream = stream, .bytes = bytes, .rounded_bytes = pl_bfc_round(bytes) };
    fresh f;
    pl_bfc_chunk *chunk = NULL;
    pleat_status st = fresh_init(b, &f);
    if (st != PLEAT_OK) {
        return st;
    }
    st = get_with(b, &r, &f, &chunk);
    if (st == PLEAT_OK) {
        bool is_split = pl_bfc_should_split(b, chunk, r.rounded_bytes);
        pl_bfc_hand_out(b, chunk, is_split ? f.spare : NULL, bytes, stream);
        f.spare = is_split ? NULL : f.spare;
        *out = chunk;
    }
    fresh_fini(b, &f);
    return st;
}
