/* tf_bfc.c - TensorFlow's BFC allocator behind the allocator interface.
 *
 * Makes instances, serves allocations and frees, and answers questions. tf_bfc_chunk.c chooses the
 * chunk, tf_bfc_grow.c asks the driver. Takes the allocator's lock (rank 20); tf_bfc_grow.c drops
 * the lock around driver calls. A hit on memory that only the request's stream used makes no driver
 * call.
 *
 * The host waits for the GPU in two cases only: for streams out of reach, and before memory goes
 * back to the driver, in set_limit too. These waits have no time limit, and wait_ms does not apply.
 * Source: xla/tsl/framework/bfc_allocator.cc of OpenXLA. */
#include "segments/classic/tf_bfc.h"
#include "vmm/driver.h"

/* ---- options --------------------------------------------------------------------------------- */

#define AT(member) PL_OPTION_AT(pl_bfc_options, member)

/* clang-format off */
static const pl_option rows[] = {
    { "bfc_allow_growth", PL_OPTION_BOOL, AT(allow_growth), .initial = true,
      .help = "regions of 2, 4, 8... MiB; False: one region of all memory" },
    { "bfc_garbage_collection", PL_OPTION_BOOL, AT(garbage_collection), .initial = true,
      .help = "give wholly free regions back before failing" },
    { "bfc_fragmentation_fraction", PL_OPTION_PART, AT(fragmentation_fraction),
      .help = "of the limit: what a block may waste without being split" },
};
/* clang-format on */

const pl_option_table pl_bfc_option_table = {
    PL_OPTION_ROWS(rows),
    .bytes = sizeof(pl_bfc_options),
};

static pleat_status check_options(const pl_bfc_options *options)
{
    double fraction = options->fragmentation_fraction;
    if (fraction >= 0 && fraction < 1) {
        return PLEAT_OK;
    }
    pl_driver_clear_error();
    pl_driver_set_detail("bfc_fragmentation_fraction: %g is not allowed: from 0 to below 1",
                         fraction);
    return PLEAT_ECONF;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void init(pl_bfc *b, const pl_bfc_options *options)
{
    b->options = *options;
    uint64_t total = pl_device_total_bytes(b->base.dev);
    uint64_t limit = b->base.limit_bytes != 0 ? b->base.limit_bytes : total;
    double fraction = options->fragmentation_fraction;
    size_t whole = limit < PL_CACHE_MOST ? (size_t)limit : PL_CACHE_MOST;
    size_t first = whole < PL_BFC_FIRST_REGION ? whole : PL_BFC_FIRST_REGION;
    b->region_bytes = pl_bfc_round(options->allow_growth ? first : whole);
    b->most_waste_bytes = fraction > 0 ? (size_t)(fraction * (double)whole) : PL_BFC_FRAGMENTATION;
    pl_bfc_chunks_init(b);
}

/* The common case: the best fit needs no wait. *out stays NULL otherwise. */
static pleat_status reuse(pl_bfc *b, size_t bytes, pl_stream *stream, pl_bfc_chunk **out)
{
    size_t rounded = pl_bfc_round(bytes);
    pl_bfc_chunk *chunk = pl_bfc_find(b, rounded);
    if (!chunk || (!pl_order_is_own(&chunk->uses, stream) &&
                   pl_order_unordered(&b->order, &chunk->uses, stream) != 0)) {
        return PLEAT_OK;
    }
    pl_bfc_chunk *spare = NULL;
    if (pl_bfc_should_split(b, chunk, rounded)) {
        spare = pl_meta_alloc(&b->base.meta, sizeof *spare);
        if (!spare) {
            return PLEAT_ENOMEM_HOST;
        }
    }
    pl_bfc_take_out(b, chunk);
    pl_bfc_hand_out(b, chunk, spare, bytes, stream);
    *out = chunk;
    return PLEAT_OK;
}

static pleat_status bfc_alloc(pl_allocator *a, size_t bytes, pl_stream *stream, pleat_devptr *out)
{
    pleat_status st = pl_cache_check_request(bytes, stream);
    if (st != PLEAT_OK) {
        return st;
    }
    pl_bfc *b = pl_bfc_of(a);
    pl_bfc_chunk *chunk = NULL;
    pl_lock_acquire(&b->base.lock);
    st = reuse(b, bytes, stream, &chunk);
    if (st == PLEAT_OK && !chunk) {
        st = pl_bfc_get(b, bytes, stream, &chunk);
    }
    if (st == PLEAT_OK) {
        *out = chunk->ptr;
    }
    pl_lock_release(&b->base.lock);
    return st;
}

/* ---- addresses ------------------------------------------------------------------------------- */

static pl_bfc_chunk *find_live(const pl_bfc *b, pleat_devptr ptr)
{
    pl_bfc_chunk *chunk = pl_bfc_live_at(b, ptr);
    return chunk && chunk->state == PL_BFC_LIVE ? chunk : NULL;
}

/* The chunk that contains `ptr`, in any state, or NULL. */
static pl_bfc_chunk *chunk_around(const pl_bfc *b, pleat_devptr ptr)
{
    pl_bfc_region key = { .ptr = ptr };
    pl_tree_node *node = pl_tree_floor(&b->regions, &key.node);
    if (!node) {
        return NULL;
    }
    pl_bfc_chunk *chunk = PL_TREE_ENTRY(node, pl_bfc_region, node)->first;
    while (chunk && ptr - chunk->ptr >= chunk->bytes) {
        chunk = chunk->next;
    }
    return chunk;
}

/* The error for an address outside live blocks. In freed memory the answer is a double free, as far
 * as known. Inside a live block, or outside all regions, the address is foreign. */
static pleat_status not_live(const pl_bfc *b, pleat_devptr ptr)
{
    const pl_bfc_chunk *chunk = chunk_around(b, ptr);
    return chunk && chunk->state != PL_BFC_LIVE ? PLEAT_EDOUBLEFREE : PLEAT_EFOREIGN;
}

static pleat_status record(pl_cache *c, pleat_devptr ptr, pl_stream *stream)
{
    pl_bfc_chunk *chunk = find_live(pl_bfc_of(&c->base), ptr);
    if (!chunk) {
        return PLEAT_EFOREIGN;
    }
    chunk->uses.lanes |= pl_order_lane(stream);
    return PLEAT_OK;
}

static pleat_status query(pl_cache *c, pleat_devptr ptr, pleat_block_info *out)
{
    const pl_bfc *b = pl_bfc_of(&c->base);
    const pl_bfc_chunk *chunk = find_live(b, ptr);
    chunk = chunk ? chunk : chunk_around(b, ptr);
    if (!chunk || chunk->state != PL_BFC_LIVE) {
        return PLEAT_EFOREIGN;
    }
    *out = pl_cache_info(c, chunk->ptr, chunk->bytes, chunk->requested_bytes, chunk->stream);
    return PLEAT_OK;
}

/* ---- free ------------------------------------------------------------------------------------ */

/* If another user stream of the chunk is being captured, hold the chunk: the graph will use it
 * again. */
static pleat_status free_live(pl_bfc *b, pl_bfc_chunk *chunk, pl_stream *stream)
{
    uint64_t lanes = chunk->uses.lanes;
    uint64_t captured = 0;
    chunk->uses.lanes |= stream ? pl_order_lane(stream) : 0;
    uint64_t others = chunk->uses.lanes & ~pl_order_lane(chunk->stream);
    chunk->state = PL_BFC_FREEING;
    pleat_status st = pl_order_captured(&b->order, others, &captured);
    chunk->state = PL_BFC_LIVE;
    if (st != PLEAT_OK) {
        chunk->uses.lanes = lanes;
        return st;
    }
    pl_bfc_end_live(b, chunk);
    pl_order_end(&b->order, &chunk->uses);
    if (captured != 0) {
        chunk->state = PL_BFC_HELD;
        chunk->held = captured;
        chunk->next_held = b->held;
        b->held = chunk;
        return PLEAT_OK;
    }
    pl_bfc_end_active(b, chunk);
    pl_bfc_recycle(b, chunk);
    return PLEAT_OK;
}

static pleat_status free_at(pl_cache *c, pleat_devptr ptr, pl_stream *stream)
{
    pl_bfc *b = pl_bfc_of(&c->base);
    pl_bfc_chunk *chunk = find_live(b, ptr);
    return chunk ? free_live(b, chunk, stream) : not_live(b, ptr);
}

/* The graph is gone. Its launches count as one more use up to the work submitted so far. */
static void end_hold(pl_bfc *b, uint64_t lane)
{
    pl_bfc_chunk **link = &b->held;
    while (*link) {
        pl_bfc_chunk *chunk = *link;
        chunk->held &= ~lane;
        if (chunk->held != 0) {
            link = &chunk->next_held;
            continue;
        }
        *link = chunk->next_held;
        chunk->next_held = NULL;
        chunk->state = PL_BFC_TAKEN;
        pl_order_end(&b->order, &chunk->uses);
        pl_bfc_end_active(b, chunk);
        pl_bfc_recycle(b, chunk);
    }
}

static pleat_status end_capture(pl_cache *c, pl_stream *stream)
{
    end_hold(pl_bfc_of(&c->base), pl_order_own_lane(stream));
    return PLEAT_OK;
}

static pleat_status give_back(pl_cache *c, uint64_t keep_bytes, bool wait, uint64_t *released)
{
    return pl_bfc_release_free(pl_bfc_of(&c->base), keep_bytes, wait ? UINT32_MAX : 0, released);
}

/* ---- the table ------------------------------------------------------------------------------- */

/* set_limit replaces the memory limit; values derived from the first limit at creation stay. */
static const pl_cache_kind kind = {
    .free = free_at,
    .record = record,
    .query = query,
    .release_all = pl_bfc_release_all,
    .release = give_back,
    .end_capture = end_capture,
    .tell_stats = pl_bfc_tell_stats,
    .visit = pl_bfc_visit,
    .check = pl_bfc_check,
    .limit_waits = true,
};

static pleat_status bfc_create(pl_device *dev, const pl_allocator_options *options,
                               pl_allocator **out)
{
    const pl_bfc_options own = pl_bfc_own(options);
    pl_cache *c = NULL;
    pleat_status st = check_options(&own);
    if (st == PLEAT_OK) {
        st = pl_cache_create(sizeof(pl_bfc), &pl_tf_bfc_ops, &kind, dev, options, &c);
    }
    if (st == PLEAT_OK) {
        init(pl_bfc_of(&c->base), &own);
        *out = &c->base;
    }
    return st;
}

const pl_allocator_ops pl_tf_bfc_ops = {
    .name = "tf-bfc",
    .needs_vmm = false,
    .options = &pl_bfc_option_table,
    .create = bfc_create,
    .alloc = bfc_alloc,
    .free = pl_cache_free,
    .set_limit = pl_cache_set_limit,
    PL_CACHE_OPS,
};
