/* torch_pinned.c - PyTorch's cache of pinned memory behind the allocator interface.
 *
 * Upholds I1, I2 and I5 of torch_pinned.h. Takes the allocator's lock (rank 20), which is dropped
 * around driver calls. torch_pinned_queue.c waits for uses. Source: CachingHostAllocatorImpl,
 * allocate and empty_cache, of PyTorch. */
#include "segments/classic/torch/torch_pinned.h"

#include "vmm/driver.h"

static unsigned class_of(size_t bytes)
{
    return bytes == 1 ? 0 : 64 - (unsigned)__builtin_clzll((unsigned long long)bytes - 1);
}

/* ---- blocks of the driver -------------------------------------------------------------------- */

static void take_in(pl_pinned *p, pl_pinned_block *b)
{
    pl_tree_insert(&p->by_address, &b->node);
    pl_tell(p->base.observer, PL_ACTION_SEGMENT_ALLOC, b->ptr, pl_pinned_bytes(b), NULL, NULL);
}

static void take_out(pl_pinned *p, pl_pinned_block *b)
{
    pl_tree_remove(&p->by_address, &b->node);
    pl_tell(p->base.observer, PL_ACTION_SEGMENT_FREE, b->ptr, pl_pinned_bytes(b), NULL, NULL);
}

static pleat_status ask_driver(pl_pinned *p, size_t bytes, pleat_devptr *out)
{
    uint64_t limit = p->base.limit_bytes;
    if (limit != 0 && p->base.reserved_bytes + p->base.growing_bytes + bytes > limit) {
        return PLEAT_ENOMEM_DEVICE;
    }
    p->base.growing_bytes += bytes;
    pl_lock_release(&p->base.lock);
    pleat_status st = pl_device_malloc(p->base.dev, bytes, out);
    pl_lock_acquire(&p->base.lock);
    p->base.growing_bytes -= bytes;
    return st;
}

static void commit(pl_pinned *p, pl_pinned_block *b)
{
    unsigned pool = pl_stats_pool(pl_pinned_bytes(b));
    take_in(p, b);
    p->base.reserved_bytes += pl_pinned_bytes(b);
    pl_stats_add(p->base.stats.segment, pool, 1);
    pl_stats_add(p->base.stats.reserved_bytes, pool, pl_pinned_bytes(b));
    p->base.stats.num_device_alloc++;
}

static pleat_status grow(pl_pinned *p, unsigned class, pl_pinned_block **out)
{
    pleat_devptr ptr = 0;
    pl_pinned_block *b = pl_meta_alloc(&p->base.meta, sizeof *b);
    if (!b) {
        return PLEAT_ENOMEM_HOST;
    }
    pleat_status st = ask_driver(p, (size_t)1 << class, &ptr);
    if (st != PLEAT_OK) {
        pl_meta_free(&p->base.meta, b);
        return st;
    }
    *b = (pl_pinned_block){ .ptr = ptr, .class = class };
    commit(p, b);
    *out = b;
    return PLEAT_OK;
}

/* A block that the driver refuses to take back stays cached. */
static pleat_status release_one(pl_pinned *p, pl_pinned_block *b)
{
    size_t bytes = pl_pinned_bytes(b);
    p->lists[b->class] = b->next;
    take_out(p, b);
    p->base.releasing_bytes += bytes;
    pl_lock_release(&p->base.lock);
    pleat_status st = pl_device_mfree(p->base.dev, b->ptr);
    pl_lock_acquire(&p->base.lock);
    p->base.releasing_bytes -= bytes;
    if (st != PLEAT_OK) {
        take_in(p, b);
        b->next = p->lists[b->class];
        p->lists[b->class] = b;
        return st;
    }
    p->base.reserved_bytes -= bytes;
    pl_stats_sub(p->base.stats.segment, pl_stats_pool(bytes), 1);
    pl_stats_sub(p->base.stats.reserved_bytes, pl_stats_pool(bytes), bytes);
    p->base.stats.num_device_free++;
    pl_meta_free(&p->base.meta, b);
    return PLEAT_OK;
}

/* empty_cache, as far as needed. */
static pleat_status release(pl_cache *c, uint64_t keep_bytes, bool wait, uint64_t *released)
{
    pl_pinned *p = pl_pinned_of(c);
    pleat_status st = pl_pinned_poll(p, wait);
    for (unsigned i = 0; i < PL_PINNED_CLASSES && st == PLEAT_OK; i++) {
        while (st == PLEAT_OK && p->lists[i] &&
               c->reserved_bytes - c->releasing_bytes > keep_bytes) {
            size_t bytes = pl_pinned_bytes(p->lists[i]);
            st = release_one(p, p->lists[i]);
            *released += st == PLEAT_OK ? bytes : 0;
        }
    }
    return st;
}

/* Uses of live blocks are not known, so all streams are waited for. */
static size_t release_all(pl_cache *c)
{
    pl_pinned *p = pl_pinned_of(c);
    size_t n_refused = 0;
    (void)pl_pinned_poll(p, true);
    pl_pinned_drop_uses(p);
    if (p->by_address.count != 0) {
        pl_lock_release(&c->lock);
        if (pl_device_synchronize(c->dev) != PLEAT_OK) {
            (void)!pl_device_synchronize(c->dev);
        }
        pl_lock_acquire(&c->lock);
    }
    for (pl_tree_node *node; (node = pl_tree_first(&p->by_address)) != NULL;) {
        pl_pinned_block *b = PL_TREE_ENTRY(node, pl_pinned_block, node);
        take_out(p, b);
        n_refused += pl_cache_mfree_last(c, b->ptr);
        pl_meta_free(&c->meta, b);
    }
    return n_refused;
}

/* ---- the calls ------------------------------------------------------------------------------- */

static void hand_out(pl_pinned *p, pl_pinned_block *b, size_t bytes, pl_stream *stream)
{
    unsigned pool = pl_stats_pool(pl_pinned_bytes(b));
    b->state = PL_PINNED_LIVE;
    b->next = NULL;
    b->stream = stream;
    b->requested_bytes = bytes;
    pl_stats_add(p->base.stats.allocation, pool, 1);
    pl_stats_add(p->base.stats.allocated_bytes, pool, pl_pinned_bytes(b));
    pl_stats_add(p->base.stats.active, pool, 1);
    pl_stats_add(p->base.stats.active_bytes, pool, pl_pinned_bytes(b));
    pl_stats_add(p->base.stats.requested_bytes, pool, bytes);
    p->base.stats.rounding_bytes += pl_pinned_bytes(b) - bytes;
    pl_tell(p->base.observer, PL_ACTION_ALLOC, b->ptr, bytes, stream, NULL);
}

/* A failed query of a fence is no reason to fail a request: the fence stays in the queue. */
static pleat_status find(pl_pinned *p, unsigned class, pl_pinned_block **out)
{
    (void)!pl_pinned_poll(p, false);
    *out = p->lists[class];
    if (!*out) {
        return grow(p, class, out);
    }
    p->lists[class] = (*out)->next;
    return PLEAT_OK;
}

static pleat_status alloc(pl_allocator *a, size_t bytes, pl_stream *stream, pleat_devptr *out)
{
    pleat_status st = pl_cache_check_request(bytes, stream);
    if (st != PLEAT_OK) {
        return st;
    }
    pl_pinned *p = (pl_pinned *)(void *)a;
    pl_pinned_block *b = NULL;
    pl_lock_acquire(&p->base.lock);
    st = find(p, class_of(bytes), &b);
    if (st == PLEAT_OK) {
        hand_out(p, b, bytes, stream);
        *out = b->ptr;
    }
    pl_lock_release(&p->base.lock);
    return st;
}

static pl_pinned_block *block_around(const pl_pinned *p, pleat_devptr ptr)
{
    pl_pinned_block key = { .ptr = ptr };
    pl_tree_node *node = pl_tree_floor(&p->by_address, &key.node);
    pl_pinned_block *b = node ? PL_TREE_ENTRY(node, pl_pinned_block, node) : NULL;
    return b && ptr - b->ptr < pl_pinned_bytes(b) ? b : NULL;
}

/* The live block at ptr. NULL: *st tells why there is none. */
static pl_pinned_block *find_live(const pl_pinned *p, pleat_devptr ptr, pleat_status *st)
{
    pl_pinned_block *around = block_around(p, ptr);
    if (around && around->ptr == ptr && around->state == PL_PINNED_LIVE) {
        return around;
    }
    *st = around && around->state != PL_PINNED_LIVE ? PLEAT_EDOUBLEFREE : PLEAT_EFOREIGN;
    return NULL;
}

static pleat_status free_at(pl_cache *c, pleat_devptr ptr, pl_stream *stream)
{
    pl_pinned *p = pl_pinned_of(c);
    pleat_status st = PLEAT_OK;
    pl_pinned_block *b = find_live(p, ptr, &st);
    st = b ? pl_pinned_add_use(p, b, b->stream) : st;
    st = b && st == PLEAT_OK && stream ? pl_pinned_add_use(p, b, stream) : st;
    return b && st == PLEAT_OK ? pl_pinned_retire(p, b) : st;
}

static pleat_status record(pl_cache *c, pleat_devptr ptr, pl_stream *stream)
{
    pl_pinned *p = pl_pinned_of(c);
    pleat_status st = PLEAT_OK;
    pl_pinned_block *b = find_live(p, ptr, &st);
    return b ? pl_pinned_add_use(p, b, stream) : PLEAT_EFOREIGN;
}

static pleat_status query(pl_cache *c, pleat_devptr ptr, pleat_block_info *out)
{
    const pl_pinned_block *b = block_around(pl_pinned_of(c), ptr);
    if (!b || b->state != PL_PINNED_LIVE) {
        return PLEAT_EFOREIGN;
    }
    *out = pl_cache_info(c, b->ptr, pl_pinned_bytes(b), b->requested_bytes, b->stream);
    return PLEAT_OK;
}

/* In PyTorch memory used by a capture is never used again. */
static pleat_status end_capture(pl_cache *c, pl_stream *stream)
{
    (void)c;
    (void)stream;
    return PLEAT_OK;
}

/* ---- life ------------------------------------------------------------------------------------ */

static const pl_cache_kind kind = {
    .release_all = release_all,
    .free = free_at,
    .record = record,
    .query = query,
    .release = release,
    .end_capture = end_capture,
    .tell_stats = pl_pinned_tell_stats,
    .visit = pl_pinned_visit,
    .check = pl_pinned_check,
    .limit_waits = false,
};

static bool is_before(const pl_tree_node *a, const pl_tree_node *b)
{
    return PL_TREE_ENTRY(a, const pl_pinned_block, node)->ptr <
           PL_TREE_ENTRY(b, const pl_pinned_block, node)->ptr;
}

static pleat_status create(pl_device *dev, const pl_allocator_options *options, pl_allocator **out)
{
    pl_cache *c = NULL;
    if (!pl_device_is_host(dev)) {
        pl_driver_set_detail("torch-pinned is a cache of pinned memory: it needs memory:host");
        return PLEAT_EINVAL;
    }
    pleat_status st = pl_cache_create(sizeof(pl_pinned), &pl_torch_pinned_ops, &kind, dev, options,
                                      &c);
    if (st != PLEAT_OK) {
        return st;
    }
    pl_tree_init(&pl_pinned_of(c)->by_address, is_before);
    *out = &c->base;
    return PLEAT_OK;
}

const pl_allocator_ops pl_torch_pinned_ops = {
    .name = "torch-pinned",
    .needs_host = true,
    .create = create,
    .alloc = alloc,
    .free = pl_cache_free,
    .set_limit = pl_cache_set_limit,
    PL_CACHE_OPS,
};
