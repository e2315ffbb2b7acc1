/* cache.c - makes and destroys classic caches, and implements their common calls. See cache.h.
 *
 * Takes the cache's lock (rank 20); the functions of pl_cache_kind drop it around driver calls. */
#include "segments/classic/cache.h"

static pl_cache *cache_of(pl_allocator *a)
{
    return (pl_cache *)(void *)a;
}

/* ---- life ------------------------------------------------------------------------------------ */

pleat_status pl_cache_create(size_t bytes, const pl_allocator_ops *ops, const pl_cache_kind *kind,
                             pl_device *dev, const pl_allocator_options *options, pl_cache **out)
{
    pl_meta meta;
    pleat_status st = pl_meta_init(&meta);
    if (st != PLEAT_OK) {
        return st;
    }
    pl_cache *c = pl_meta_calloc(&meta, 1, bytes);
    if (!c) {
        pl_meta_fini(&meta);
        return PLEAT_ENOMEM_HOST;
    }
    pl_lock_init(&c->lock, PL_RANK_CLASSIC);
    pl_waiter_init(&c->waiter, &c->lock, &c->stats.allocation[PLEAT_SIZES_ALL].freed);
    c->base.ops = ops;
    c->kind = kind;
    c->dev = dev;
    c->limit_bytes = options->limit_bytes;
    c->observer = options->observer;
    c->meta = meta;
    *out = c;
    return PLEAT_OK;
}

void pl_cache_fini(pl_cache *c)
{
    pl_lock_fini(&c->lock);
    pl_meta meta = c->meta;
    pl_meta_free(&meta, c);
    size_t n_lost = pl_meta_fini(&meta);
    pl_assert(n_lost == 0);
    (void)n_lost;
}

pleat_status pl_cache_destroy(pl_allocator *a, bool force, size_t *n_live, size_t *n_leaked)
{
    pl_cache *c = cache_of(a);
    *n_leaked = 0;
    pl_lock_acquire(&c->lock);
    *n_live = c->stats.allocation[PLEAT_SIZES_ALL].current;
    if (*n_live != 0 && !force) {
        pl_lock_release(&c->lock);
        return PLEAT_EBUSY;
    }
    c->observer = NULL;
    *n_leaked = c->kind->release_all(c);
    pl_lock_release(&c->lock);
    pl_cache_fini(c);
    return PLEAT_OK;
}

size_t pl_cache_mfree_last(pl_cache *c, pleat_devptr ptr)
{
    pl_lock_release(&c->lock);
    bool is_refused = pl_device_mfree(c->dev, ptr) != PLEAT_OK &&
                      pl_device_mfree(c->dev, ptr) != PLEAT_OK;
    pl_lock_acquire(&c->lock);
    return is_refused ? 1 : 0;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

pleat_status pl_cache_free(pl_allocator *a, pleat_devptr ptr, pl_stream *stream)
{
    return pl_cache_free_by(a, ptr, stream, cache_of(a)->kind->free);
}

pleat_status pl_cache_record_stream(pl_allocator *a, pleat_devptr ptr, pl_stream *stream)
{
    if (!stream) {
        return PLEAT_EINVAL;
    }
    pl_cache *c = cache_of(a);
    pl_lock_acquire(&c->lock);
    pleat_status st = c->kind->record(c, ptr, stream);
    pl_lock_release(&c->lock);
    return st;
}

pleat_status pl_cache_query(pl_allocator *a, pleat_devptr ptr, pleat_block_info *out)
{
    pl_cache *c = cache_of(a);
    pl_lock_acquire(&c->lock);
    pleat_status st = c->kind->query(c, ptr, out);
    pl_lock_release(&c->lock);
    return st;
}

/* ---- memory ---------------------------------------------------------------------------------- */

bool pl_cache_may_try(pl_cache *c, pl_turn *turn, pleat_status st, uint64_t bytes)
{
    uint64_t total = pl_device_total_bytes(c->dev);
    uint64_t limit = c->limit_bytes;
    uint64_t most = limit != 0 && limit < total ? limit : total;
    uint64_t live = c->stats.allocated_bytes[PLEAT_SIZES_ALL].current;
    return pl_waiter_may_try(&c->waiter, turn, st, live <= most && bytes <= most - live);
}

pleat_status pl_cache_trim(pl_allocator *a, uint64_t keep_bytes, bool wait, uint64_t *released)
{
    pl_cache *c = cache_of(a);
    uint64_t n = 0;
    pl_lock_acquire(&c->lock);
    pleat_status st = c->kind->release(c, keep_bytes, wait, &n);
    pl_lock_release(&c->lock);
    if (st == PLEAT_OK) {
        *released = n;
    }
    return st;
}

pleat_status pl_cache_set_limit(pl_allocator *a, uint64_t bytes)
{
    pl_cache *c = cache_of(a);
    uint64_t released = 0;
    pleat_status st = PLEAT_OK;
    pl_lock_acquire(&c->lock);
    if (bytes != 0 && c->reserved_bytes > bytes) {
        st = c->kind->release(c, bytes, c->kind->limit_waits, &released);
    }
    if (st == PLEAT_OK && bytes != 0 && c->reserved_bytes + c->growing_bytes > bytes) {
        st = PLEAT_ENOMEM_DEVICE;
    }
    if (st == PLEAT_OK) {
        c->limit_bytes = bytes;
    }
    pl_lock_release(&c->lock);
    return st;
}

pleat_status pl_cache_release_capture(pl_allocator *a, pl_stream *stream)
{
    if (!stream) {
        return PLEAT_EINVAL;
    }
    bool is_capturing = false;
    pleat_status st = pl_stream_is_still_capturing(stream, &is_capturing);
    if (st == PLEAT_OK && is_capturing) {
        return PLEAT_ECAPTURE;
    }
    if (st != PLEAT_OK && st != PLEAT_ESTREAM) {
        return st;
    }
    pl_cache *c = cache_of(a);
    pl_lock_acquire(&c->lock);
    pl_waiter_leave(&c->waiter); /* another request may lack the memory of this capture */
    st = c->kind->end_capture(c, stream);
    pl_waiter_return(&c->waiter, NULL);
    pl_lock_release(&c->lock);
    return st;
}

/* ---- what is told ---------------------------------------------------------------------------- */

pleat_block_info pl_cache_info(const pl_cache *c, pleat_devptr base, size_t bytes,
                               size_t requested_bytes, const pl_stream *stream)
{
    return (pleat_block_info){
        .base = base,
        .bytes = bytes,
        .requested_bytes = requested_bytes,
        .stream_id = pl_stream_id(stream),
        .stream = pl_stream_handle(stream),
        .device = pl_device_ordinal(c->dev),
    };
}

/* These caches have no granules, so live_granules stays 0. */
void pl_cache_stats(pl_allocator *a, pleat_stats *out)
{
    pl_cache *c = cache_of(a);
    pl_lock_acquire(&c->lock);
    *out = c->stats;
    out->resident_bytes = c->reserved_bytes;
    out->metadata_bytes = c->meta.bytes;
    pl_stats_read_device(out, c->dev);
    c->kind->tell_stats(c, out);
    pl_lock_release(&c->lock);
}

void pl_cache_reset_peaks(pl_allocator *a)
{
    pl_cache *c = cache_of(a);
    pl_lock_acquire(&c->lock);
    pl_stats_reset_peaks(&c->stats);
    pl_lock_release(&c->lock);
}

void pl_cache_visit(pl_allocator *a, void (*see)(void *context, const pl_piece *piece),
                    void *context)
{
    pl_cache *c = cache_of(a);
    pl_lock_acquire(&c->lock);
    c->kind->visit(c, see, context);
    pl_lock_release(&c->lock);
}

int pl_cache_check(pl_allocator *a)
{
    pl_cache *c = cache_of(a);
    pl_lock_acquire(&c->lock);
    int broken = c->kind->check(c);
    pl_lock_release(&c->lock);
    return broken;
}
