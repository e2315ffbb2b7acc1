/* cuda_async.c - the driver's own pool behind the allocator interface. See cuda_async.h.
 *
 * A failed allocation is tried once more. Before that, the host waits for the device, and the pool
 * gives all free memory back. Memory freed by other streams is then available in whole pages. The
 * wait is not bounded by wait_ms. Takes the allocator's lock (rank 20), which is dropped around
 * driver calls.
 *
 * The statistics are PyTorch's. Reserved bytes are the pool's size at the last query
 * (vmm/async/async_pool.h). Segments and free stretches inside the pool cannot be seen from
 * outside, so segments and inactive splits are not counted, and visit shows blocks only. Source:
 * c10/cuda/CUDAMallocAsyncAllocator.cpp. */
#include <string.h>

#include "segments/classic/cuda_async.h"
#include "vmm/base/deadline.h"

static pl_async *async_of(pl_allocator *a)
{
    return (pl_async *)(void *)a;
}

static pl_async_block *block_of(const pl_tree_node *node)
{
    return node ? PL_TREE_ENTRY(node, pl_async_block, node) : NULL;
}

static bool is_before(const pl_tree_node *a, const pl_tree_node *b)
{
    const pl_async_block *x = PL_TREE_ENTRY(a, const pl_async_block, node);
    const pl_async_block *y = PL_TREE_ENTRY(b, const pl_async_block, node);
    return x->ptr < y->ptr;
}

/* ---- allocation ------------------------------------------------------------------------------ */

/* Allocate for a stream that is being captured, on the pool's own stream. The host waits for that
 * stream, so the memory exists whenever the graph is launched. Without the lock. */
static pleat_status allocate_apart(pl_async *p, size_t bytes, pleat_devptr *out)
{
    pl_stream *own = NULL;
    pleat_devptr ptr = 0;
    pleat_status st = pl_async_pool_own_stream(p->pool, &own);
    if (st == PLEAT_OK) {
        st = pl_async_pool_alloc(p->pool, bytes, own, &ptr);
    }
    if (st != PLEAT_OK) {
        return st;
    }
    st = pl_stream_synchronize(own);
    if (st != PLEAT_OK) {
        pl_device_undo(p->base.dev, pl_async_pool_free(p->pool, ptr, bytes, own));
        return st;
    }
    *out = ptr;
    return PLEAT_OK;
}

static pleat_status allocate(pl_async *p, pl_async_block *block)
{
    pl_lock_release(&p->base.lock);
    block->is_apart = false;
    pleat_status st = pl_async_pool_alloc(p->pool, block->bytes, block->stream, &block->ptr);
    if (st == PLEAT_ECAPTURE) {
        block->is_apart = true;
        st = allocate_apart(p, block->bytes, &block->ptr);
    }
    pl_lock_acquire(&p->base.lock);
    if (block->is_apart) {
        block->birth = pl_order_birth(&p->order, block->stream);
    }
    return st;
}

/* Would the block fit if all memory except live blocks were free? */
static bool may_fit(const pl_async *p, const pl_async_block *block)
{
    uint64_t total = pl_device_total_bytes(p->base.dev);
    uint64_t most = p->base.limit_bytes != 0 && p->base.limit_bytes < total ? p->base.limit_bytes
                                                                            : total;
    uint64_t live = p->base.stats.allocated_bytes[PLEAT_SIZES_ALL].current;
    return live < most && pl_async_rounded(block->bytes) <= most - live;
}

/* Try again after a failure. EPENDING: a wait would help, but is not allowed beside a capture. */
static pleat_status allocate_again(pl_async *p, pl_async_block *block)
{
    uint64_t released = 0;
    pleat_status waited = pl_async_synchronize(p);
    if (waited == PLEAT_OK) {
        p->base.stats.num_sync_all_streams++;
    }
    p->base.stats.num_alloc_retries++;
    pl_lock_release(&p->base.lock);
    (void)pl_async_pool_trim(p->pool, 0, &released);
    pl_lock_acquire(&p->base.lock);
    pl_async_note_reserved(p);
    pleat_status st = allocate(p, block);
    bool is_idle = pl_async_pool_held_bytes(p->pool) <=
                   p->base.stats.allocated_bytes[PLEAT_SIZES_ALL].current;
    bool is_worth_waiting = waited == PLEAT_ECAPTURE && !is_idle && may_fit(p, block);
    return st == PLEAT_ENOMEM_DEVICE && is_worth_waiting ? PLEAT_EPENDING : st;
}

static void commit(pl_async *p, pl_async_block *block)
{
    uint64_t rounded = pl_async_rounded(block->bytes);
    unsigned pool = pl_stats_pool(rounded);
    pl_tree_insert(&p->blocks, &block->node);
    pl_stats_add(p->base.stats.allocation, pool, 1);
    pl_stats_add(p->base.stats.allocated_bytes, pool, rounded);
    pl_stats_add(p->base.stats.active, pool, 1);
    pl_stats_add(p->base.stats.active_bytes, pool, rounded);
    pl_stats_add(p->base.stats.requested_bytes, pool, block->bytes);
    p->base.stats.rounding_bytes += rounded - block->bytes;
    pl_async_tell_segment(p, PL_ACTION_SEGMENT_ALLOC, block);
    pl_async_tell(p, PL_ACTION_ALLOC, block);
}

static pleat_status async_alloc(pl_allocator *a, size_t bytes, pl_stream *stream, pleat_devptr *out)
{
    pleat_status st = pl_cache_check_request(bytes, stream);
    if (st != PLEAT_OK) {
        return st;
    }
    pl_async *p = async_of(a);
    pl_lock_acquire(&p->base.lock);
    pl_async_block *block = pl_meta_alloc(&p->base.meta, sizeof *block);
    if (!block) {
        pl_lock_release(&p->base.lock);
        return PLEAT_ENOMEM_HOST;
    }
    *block = (pl_async_block){ .bytes = bytes, .stream = stream, .lanes = pl_order_lane(stream) };
    st = allocate(p, block);
    if (st == PLEAT_ENOMEM_DEVICE) {
        pl_deadline_begin();
        st = allocate_again(p, block);
    }
    if (st == PLEAT_OK) {
        commit(p, block);
        *out = block->ptr;
    } else {
        pl_meta_free(&p->base.meta, block);
    }
    pl_async_note_reserved(p);
    pl_lock_release(&p->base.lock);
    return st;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* The block that contains `ptr`, live or held, or NULL. */
static pl_async_block *block_around(const pl_async *p, pleat_devptr ptr)
{
    const pl_async_block key = { .ptr = ptr };
    pl_async_block *block = block_of(pl_tree_floor(&p->blocks, &key.node));
    return block && ptr - block->ptr < pl_async_rounded(block->bytes) ? block : NULL;
}

static pl_async_block *find_live(const pl_async *p, pleat_devptr ptr)
{
    pl_async_block *block = block_around(p, ptr);
    return block && block->ptr == ptr && !block->is_held ? block : NULL;
}

/* A block that went back to the driver is forgotten. So its second free counts as foreign. */
static pleat_status not_live(const pl_async *p, pleat_devptr ptr)
{
    const pl_async_block *block = block_around(p, ptr);
    return block && block->is_held ? PLEAT_EDOUBLEFREE : PLEAT_EFOREIGN;
}

static pleat_status free_at(pl_cache *c, pleat_devptr ptr, pl_stream *stream)
{
    pl_async *p = async_of(&c->base);
    pl_async_block *block = find_live(p, ptr);
    return block ? pl_async_free(p, block, stream) : not_live(p, ptr);
}

static pleat_status record(pl_cache *c, pleat_devptr ptr, pl_stream *stream)
{
    pl_async_block *block = find_live(async_of(&c->base), ptr);
    if (!block) {
        return PLEAT_EFOREIGN;
    }
    block->lanes |= pl_order_lane(stream);
    return PLEAT_OK;
}

static pleat_status query(pl_cache *c, pleat_devptr ptr, pleat_block_info *out)
{
    const pl_async_block *block = block_around(async_of(&c->base), ptr);
    if (!block || block->is_held) {
        return PLEAT_EFOREIGN;
    }
    *out = pl_cache_info(c, block->ptr, pl_async_rounded(block->bytes), block->bytes,
                         block->stream);
    return PLEAT_OK;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Lock held on entry and exit, dropped meanwhile. */
static pleat_status trim_pool(pl_async *p, uint64_t keep_bytes, uint64_t *released)
{
    pl_lock_release(&p->base.lock);
    pleat_status st = pl_async_pool_trim(p->pool, keep_bytes, released);
    pl_lock_acquire(&p->base.lock);
    pl_async_note_reserved(p);
    return st;
}

/* Beside a capture the host may not wait. Then only memory that the driver knows to be free goes
 * back. */
static pleat_status give_back(pl_cache *c, uint64_t keep_bytes, bool wait, uint64_t *released)
{
    pl_async *p = async_of(&c->base);
    pleat_status st = wait ? pl_async_synchronize(p) : PLEAT_OK;
    return st == PLEAT_OK || st == PLEAT_ECAPTURE ? trim_pool(p, keep_bytes, released) : st;
}

static pleat_status async_set_limit(pl_allocator *a, uint64_t bytes)
{
    pl_async *p = async_of(a);
    uint64_t released = 0;
    pleat_status st = PLEAT_OK;
    pl_lock_acquire(&p->base.lock);
    if (bytes != 0 && pl_async_pool_held_bytes(p->pool) > bytes) {
        st = give_back(&p->base, bytes, true, &released);
    }
    pl_lock_release(&p->base.lock);
    st = st == PLEAT_OK ? pl_async_pool_set_limit(p->pool, bytes) : st;
    if (st == PLEAT_OK) {
        pl_lock_acquire(&p->base.lock);
        p->base.limit_bytes = bytes;
        pl_lock_release(&p->base.lock);
    }
    return st;
}

static pleat_status end_capture(pl_cache *c, pl_stream *stream)
{
    return pl_async_release(async_of(&c->base), stream);
}

static size_t release_all(pl_cache *c)
{
    pl_async *p = async_of(&c->base);
    pl_async_free_all(p);
    pl_lock_release(&c->lock);
    size_t n_refused = pl_async_pool_destroy(p->pool);
    pl_lock_acquire(&c->lock);
    return n_refused;
}

/* If the driver does not tell how much the pool holds, `held` sums up the requested sizes, which
 * may be less than the rounded sizes. */
static void tell_stats(pl_cache *c, pleat_stats *out)
{
    pl_async_note_reserved(async_of(&c->base));
    uint64_t held = c->stats.reserved_bytes[PLEAT_SIZES_ALL].current;
    uint64_t active = c->stats.active_bytes[PLEAT_SIZES_ALL].current;
    memcpy(out->reserved_bytes, c->stats.reserved_bytes, sizeof out->reserved_bytes);
    out->resident_bytes = held;
    out->free_bytes = held > active ? held - active : 0;
    out->pending_bytes = active - c->stats.allocated_bytes[PLEAT_SIZES_ALL].current;
    out->num_device_alloc = out->ops_alloc;
    out->num_device_free = out->ops_free;
}

/* Neighbouring blocks are shown as one segment, since memory between other blocks is unknown. */
static void visit(pl_cache *c, void (*see)(void *context, const pl_piece *piece), void *context)
{
    const pl_async *p = async_of(&c->base);
    pleat_devptr end = 0;
    for (pl_tree_node *node = pl_tree_first(&p->blocks); node; node = pl_tree_next(node)) {
        const pl_async_block *block = block_of(node);
        pl_piece piece = {
            .base = block->ptr,
            .bytes = pl_async_rounded(block->bytes),
            .requested_bytes = block->is_held ? 0 : block->bytes,
            .awaited_bytes = block->is_held ? block->bytes : 0,
            .stream = block->stream,
            .kind = block->is_held ? PL_PIECE_PENDING : PL_PIECE_LIVE,
            .is_first = block->ptr != end,
        };
        end = piece.base + piece.bytes;
        see(context, &piece);
    }
}

/* ---- the walker ------------------------------------------------------------------------------ */

typedef struct tally {
    uint64_t n_live, n_held, live_bytes, held_bytes, asked_bytes, live_asked_bytes;
} tally;

/* Sums up all blocks; false if two overlap. */
static bool count_blocks(const pl_async *p, tally *sum)
{
    pleat_devptr end = 0;
    for (pl_tree_node *node = pl_tree_first(&p->blocks); node; node = pl_tree_next(node)) {
        const pl_async_block *block = block_of(node);
        uint64_t rounded = pl_async_rounded(block->bytes);
        if (block->ptr < end) {
            return false;
        }
        end = block->ptr + rounded;
        sum->asked_bytes += block->bytes;
        sum->n_live += !block->is_held;
        sum->live_bytes += block->is_held ? 0 : rounded;
        sum->live_asked_bytes += block->is_held ? 0 : block->bytes;
        sum->n_held += block->is_held;
        sum->held_bytes += block->is_held ? rounded : 0;
    }
    return true;
}

static int check_stats(const pl_async *p, const tally *sum)
{
    const pleat_stats *s = &p->base.stats;
    uint64_t live = sum->live_bytes + p->freeing_bytes;
    uint64_t rounding = live - sum->live_asked_bytes - p->freeing_asked_bytes;
    uint64_t n_active = sum->n_live + sum->n_held + p->n_freeing + p->n_moving;
    uint64_t asked = sum->asked_bytes + p->freeing_asked_bytes + p->moving_asked_bytes;
    bool is_same = s->allocation[PLEAT_SIZES_ALL].current == sum->n_live + p->n_freeing &&
                   s->allocated_bytes[PLEAT_SIZES_ALL].current == live &&
                   s->active[PLEAT_SIZES_ALL].current == n_active &&
                   s->active_bytes[PLEAT_SIZES_ALL].current ==
                       live + sum->held_bytes + p->moving_bytes &&
                   s->requested_bytes[PLEAT_SIZES_ALL].current == asked &&
                   s->rounding_bytes == rounding;
    return is_same ? 0 : 3;
}

static int check(pl_cache *c)
{
    const pl_async *p = async_of(&c->base);
    tally sum = { 0 };
    size_t n_listed = 0;
    int broken = pl_tree_check(&p->blocks) == 0 && count_blocks(p, &sum) ? 0 : 1;
    for (const pl_async_block *block = p->held; block; block = block->next) {
        n_listed += block->is_held;
    }
    if (broken == 0 && (n_listed != sum.n_held || p->n_held != sum.n_held)) {
        broken = 2;
    }
    return broken == 0 ? check_stats(p, &sum) : broken;
}

/* ---- the table ------------------------------------------------------------------------------- */

static const pl_cache_kind kind = {
    .free = free_at,
    .record = record,
    .query = query,
    .release_all = release_all,
    .release = give_back,
    .end_capture = end_capture,
    .tell_stats = tell_stats,
    .visit = visit,
    .check = check,
};

static const pl_option rows[] = {
    { "async_release_threshold", PL_OPTION_SIZE,
      PL_OPTION_AT(pl_async_options, release_threshold_bytes), .help = "what the pool keeps" },
};

const pl_option_table pl_async_option_table = {
    PL_OPTION_ROWS(rows),
    .bytes = sizeof(pl_async_options),
};

static pleat_status async_create(pl_device *dev, const pl_allocator_options *options,
                                 pl_allocator **out)
{
    uint64_t keep_bytes = pl_async_own(options).release_threshold_bytes;
    pl_cache *c = NULL;
    pleat_status st = pl_cache_create(sizeof(pl_async), &pl_cuda_async_ops, &kind, dev, options,
                                      &c);
    if (st != PLEAT_OK) {
        return st;
    }
    pl_async *p = async_of(&c->base);
    st = pl_async_pool_create(dev, options->limit_bytes, keep_bytes ? keep_bytes : UINT64_MAX,
                              &p->pool);
    if (st != PLEAT_OK) {
        pl_cache_fini(c);
        return st;
    }
    pl_order_init(&p->order, dev, &c->lock);
    pl_tree_init(&p->blocks, is_before);
    *out = &c->base;
    return PLEAT_OK;
}

const pl_allocator_ops pl_cuda_async_ops = {
    .name = "cuda-async",
    .needs_vmm = false,
    .options = &pl_async_option_table,
    .create = async_create,
    .alloc = async_alloc,
    .free = pl_cache_free,
    .set_limit = async_set_limit,
    PL_CACHE_OPS,
};
