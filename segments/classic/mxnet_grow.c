/* mxnet_grow.c - blocks asked from the driver, and the cache given back to it.
 *
 * Upholds I1 and I5 of mxnet.h. The allocator's lock is held on entry and exit and dropped around
 * every driver call. A block that a call works on is in no list meanwhile. On its way to the driver
 * a block is not in tree and map either, since the driver may give the address to a new block. The
 * block's bytes count as reserved_bytes until the driver has them. Bytes requested from the driver
 * count as growing_bytes. Host memory is allocated before the driver is asked.
 *
 * Blocks go back to the driver through depart.h. Source: PooledStorageManager, Alloc and
 * ReleaseAll, of MXNet. */
#include "segments/classic/mxnet.h"

typedef struct request {
    pl_stream *stream;
    size_t class_bytes; /* rounded */
} request;

/* Host memory for a new block and for its list, if the block is the first of its class. */
typedef struct fresh {
    pl_mxnet_block *block;
    pl_mxnet_list *list;
    pl_turn turn;
} fresh;

static void fresh_fini(pl_mxnet *m, fresh *f)
{
    pl_meta_free(&m->base.meta, f->block);
    pl_meta_free(&m->base.meta, f->list);
}

static pleat_status fresh_init(pl_mxnet *m, fresh *f)
{
    *f = (fresh){
        .block = pl_meta_alloc(&m->base.meta, sizeof *f->block),
        .list = pl_meta_alloc(&m->base.meta, sizeof *f->list),
        .turn = pl_waiter_begin(&m->base.waiter),
    };
    if (!f->block || !f->list) {
        fresh_fini(m, f);
        return PLEAT_ENOMEM_HOST;
    }
    return PLEAT_OK;
}

static pl_mxnet_list *commit_list(pl_mxnet *m, fresh *f, size_t class_bytes)
{
    pl_mxnet_list *list = pl_mxnet_list_of(m, class_bytes);
    if (!list) {
        list = f->list;
        f->list = NULL;
        *list = (pl_mxnet_list){ .bytes = class_bytes, .pool = pl_stats_pool(class_bytes) };
        pl_tree_insert(&m->lists, &list->node);
    }
    return list;
}

static void take_in(pl_mxnet *m, pl_mxnet_block *block)
{
    pl_tree_insert(&m->by_address, &block->node);
    pl_mxnet_tell_segment(m, PL_ACTION_SEGMENT_ALLOC, block);
}

static void take_out(pl_mxnet *m, pl_mxnet_block *block)
{
    pl_tree_remove(&m->by_address, &block->node);
    pl_mxnet_tell_segment(m, PL_ACTION_SEGMENT_FREE, block);
}

static pl_mxnet_block *commit_block(pl_mxnet *m, fresh *f, size_t class_bytes, pleat_devptr ptr)
{
    pl_mxnet_block *block = f->block;
    f->block = NULL;
    *block = (pl_mxnet_block){
        .ptr = ptr,
        .list = commit_list(m, f, class_bytes),
        .state = PL_MXNET_TAKEN,
    };
    block->list->n_blocks++;
    take_in(m, block);
    m->base.reserved_bytes += class_bytes;
    pl_stats_add(m->base.stats.segment, block->list->pool, 1);
    pl_stats_add(m->base.stats.reserved_bytes, block->list->pool, class_bytes);
    m->base.stats.num_device_alloc++;
    return block;
}

/* Ask once. A limit counts as the size of the device. */
static pleat_status ask_driver(pl_mxnet *m, const request *r, fresh *f, pl_mxnet_block **out)
{
    uint64_t limit = m->base.limit_bytes;
    pl_waiter_see(&m->base.waiter, &f->turn);
    if (limit != 0 && m->base.reserved_bytes + m->base.growing_bytes + r->class_bytes > limit) {
        return PLEAT_ENOMEM_DEVICE;
    }
    m->base.growing_bytes += r->class_bytes;
    pl_waiter_leave(&m->base.waiter);
    pl_lock_release(&m->base.lock);
    pleat_devptr ptr = 0;
    pleat_status st = pl_device_malloc(m->base.dev, r->class_bytes, &ptr);
    pl_lock_acquire(&m->base.lock);
    pl_waiter_return(&m->base.waiter, &f->turn);
    m->base.growing_bytes -= r->class_bytes;
    if (st == PLEAT_OK) {
        *out = commit_block(m, f, r->class_bytes, ptr);
    }
    return st;
}

/* ---- giving back ----------------------------------------------------------------------------- */

static void forget_block(pl_mxnet *m, pl_mxnet_block *block)
{
    pl_mxnet_list *list = block->list;
    pl_meta_free(&m->base.meta, block);
    if (--list->n_blocks == 0) {
        pl_tree_remove(&m->lists, &list->node);
        pl_meta_free(&m->base.meta, list);
    }
}

pleat_status pl_mxnet_release(pl_mxnet *m, pl_mxnet_block *block)
{
    pl_lock_assert(&m->base.lock);
    pl_assert(block->state == PL_MXNET_TAKEN);
    size_t bytes = block->list->bytes;
    take_out(m, block);
    m->base.releasing_bytes += bytes;
    m->n_away++;
    pl_waiter_leave(&m->base.waiter);
    pl_lock_release(&m->base.lock);
    pleat_status st = pl_device_mfree(m->base.dev, block->ptr);
    pl_lock_acquire(&m->base.lock);
    m->base.releasing_bytes -= bytes;
    m->n_away--;
    pl_waiter_return(&m->base.waiter, NULL);
    if (st != PLEAT_OK) {
        take_in(m, block);
        return st;
    }
    m->base.reserved_bytes -= bytes;
    pl_stats_sub(m->base.stats.segment, block->list->pool, 1);
    pl_stats_sub(m->base.stats.reserved_bytes, block->list->pool, bytes);
    m->base.stats.num_device_free++;
    forget_block(m, block);
    return PLEAT_OK;
}

static pl_mxnet_block *leaving(const pl_leaver *leaver)
{
    return PL_LEAVER_ENTRY(leaver, pl_mxnet_block, leaver);
}

static void pick(pl_cache *c, pl_departing *d)
{
    pl_mxnet *m = pl_mxnet_of(&c->base);
    for (pl_tree_node *node = pl_tree_first(&m->lists); node; node = pl_tree_next(node)) {
        pl_mxnet_list *list = PL_TREE_ENTRY(node, pl_mxnet_list, node);
        pl_mxnet_block **link = &list->first;
        while (*link && pl_depart_wants_more(d)) {
            if (pl_depart_takes(d, &(*link)->uses, list->bytes)) {
                pl_depart_add(d, &pl_mxnet_take(m, link)->leaver);
            } else {
                link = &(*link)->next;
            }
        }
    }
}

static uint64_t open_of_cached(const pl_cache *c)
{
    const pl_mxnet *m = (const pl_mxnet *)(const void *)c;
    uint64_t open = 0;
    for (pl_tree_node *node = pl_tree_first(&m->lists); node; node = pl_tree_next(node)) {
        const pl_mxnet_list *list = PL_TREE_ENTRY(node, pl_mxnet_list, node);
        for (const pl_mxnet_block *block = list->first; block; block = block->next) {
            open |= pl_order_open(&m->order, &block->uses, NULL);
        }
    }
    return open;
}

static size_t bytes_of(const pl_leaver *leaver)
{
    return leaving(leaver)->list->bytes;
}

static const pl_order_uses *uses_of(const pl_leaver *leaver)
{
    return &leaving(leaver)->uses;
}

static pleat_status release_leaver(pl_cache *c, pl_leaver *leaver)
{
    return pl_mxnet_release(pl_mxnet_of(&c->base), leaving(leaver));
}

static void put_back(pl_cache *c, pl_leaver *leaver)
{
    pl_mxnet_put(pl_mxnet_of(&c->base), leaving(leaver));
}

static const pl_depart_kind departure = {
    .pick = pick,
    .open = open_of_cached,
    .bytes_of = bytes_of,
    .uses_of = uses_of,
    .release = release_leaver,
    .put_back = put_back,
};

pleat_status pl_mxnet_release_cached(pl_mxnet *m, uint64_t keep_bytes, uint32_t wait_ms,
                                     uint64_t *released)
{
    return pl_depart(&m->base, &m->order, &departure, keep_bytes, wait_ms, released);
}

size_t pl_mxnet_release_all(pl_cache *c)
{
    pl_lock_assert(&c->lock);
    pl_mxnet *m = pl_mxnet_of(&c->base);
    size_t n_refused = 0;
    if (m->by_address.count != 0) {
        pl_order_wait_all(&m->order);
    }
    for (pl_tree_node *node; (node = pl_tree_first(&m->by_address)) != NULL;) {
        pl_mxnet_block *block = PL_TREE_ENTRY(node, pl_mxnet_block, node);
        take_out(m, block);
        n_refused += pl_cache_mfree_last(c, block->ptr);
        pl_meta_free(&m->base.meta, block);
    }
    for (pl_tree_node *node; (node = pl_tree_first(&m->lists)) != NULL;) {
        pl_tree_remove(&m->lists, node);
        pl_meta_free(&m->base.meta, PL_TREE_ENTRY(node, pl_mxnet_list, node));
    }
    return n_refused;
}

/* ---- the way of a miss ----------------------------------------------------------------------- */

/* Would the reserve stay free? If the driver does not tell how much is free, MXNet 2 fails, and for
 * 1.x the answer is no. MXNet 2 checks the device's memory for pinned memory, too. */
static pleat_status has_room(pl_mxnet *m, size_t class_bytes, bool *out)
{
    bool is_host = pl_device_is_host(m->base.dev);
    uint64_t limit = is_host ? 0 : m->base.limit_bytes;
    uint64_t held = m->base.reserved_bytes + m->base.growing_bytes;
    uint64_t total = pl_device_total_bytes(m->base.dev);
    uint64_t gpu_bytes = 0;
    uint64_t free_bytes = 0;
    pl_lock_release(&m->base.lock);
    pleat_status st = pl_device_gpu_bytes(m->base.dev, &free_bytes, &gpu_bytes);
    pl_lock_acquire(&m->base.lock);
    if (st != PLEAT_OK && m->policy->is_v2) {
        return st;
    }
    total = is_host ? gpu_bytes : total;
    if (limit != 0 && limit < total) {
        uint64_t left = limit > held ? limit - held : 0;
        total = limit;
        free_bytes = left < free_bytes ? left : free_bytes;
    }
    uint64_t reserve = total * m->options.reserve_percent / 100;
    if (m->policy->is_v2) {
        *out = free_bytes > class_bytes && reserve <= free_bytes - class_bytes;
    } else {
        *out = free_bytes > reserve && class_bytes <= free_bytes - reserve;
    }
    return PLEAT_OK;
}

/* ReleaseAll. On a stream that is being captured nothing is given back, and *done is false. */
static pleat_status release_for(pl_mxnet *m, const request *r, bool *done)
{
    *done = false;
    if (m->n_cached == 0) {
        *done = true;
        return PLEAT_OK;
    }
    pl_lock_release(&m->base.lock);
    bool is_capturing = false;
    pleat_status st = pl_stream_is_capturing(r->stream, &is_capturing);
    pl_lock_acquire(&m->base.lock);
    if (st != PLEAT_OK || is_capturing) {
        return st;
    }
    uint64_t released = 0;
    *done = true;
    return pl_mxnet_release_cached(m, 0, UINT32_MAX, &released);
}

/* Do ReleaseAll and a second try follow this failure? */
static bool is_tried_again(const pl_mxnet *m, pleat_status st)
{
    return st == PLEAT_ENOMEM_DEVICE || (st == PLEAT_EDRIVER && m->policy->is_v2);
}

static pleat_status new_block(pl_mxnet *m, const request *r, fresh *f, pl_mxnet_block **out)
{
    if (!m->policy->is_pooled && m->n_cached == 0) {
        return ask_driver(m, r, f, out);
    }
    bool is_room = true;
    bool is_released = false;
    pleat_status st = m->policy->is_pooled ? has_room(m, r->class_bytes, &is_room) : PLEAT_OK;
    if (st == PLEAT_OK && !is_room) {
        st = release_for(m, r, &is_released);
    }
    if (st != PLEAT_OK) {
        return st;
    }
    st = ask_driver(m, r, f, out);
    if (!is_tried_again(m, st)) {
        return st;
    }
    pleat_status released = release_for(m, r, &is_released);
    if (released != PLEAT_OK || !is_released) {
        return released != PLEAT_OK ? released : st;
    }
    m->base.stats.num_alloc_retries++;
    return ask_driver(m, r, f, out);
}

static pleat_status grow_with(pl_mxnet *m, const request *r, fresh *f, pl_mxnet_block **out)
{
    pleat_status st = new_block(m, r, f, out);
    while (pl_cache_may_try(&m->base, &f->turn, st, r->class_bytes)) {
        st = pl_mxnet_reuse(m, r->class_bytes, r->stream, out);
        if (st == PLEAT_OK && !*out) {
            st = new_block(m, r, f, out);
        }
    }
    return st;
}

pleat_status pl_mxnet_grow(pl_mxnet *m, size_t class_bytes, pl_stream *stream, pl_mxnet_block **out)
{
    pl_lock_assert(&m->base.lock);
    request r = { .stream = stream, .class_bytes = class_bytes };
    fresh f;
    pleat_status st = fresh_init(m, &f);
    if (st != PLEAT_OK) {
        return st;
    }
    st = grow_with(m, &r, &f, out);
    fresh_fini(m, &f);
    return st;
}
