/* torch_grow.c - the steps, in order, of a request that no free block serves.
 *
 * The steps are PyTorch's:
 *   1. collect by age;
 *   2. ask the driver;
 *   3. give back oversize blocks and ask again;
 *   4. give back everything and ask again.
 *
 * The allocator's lock is held on entry and exit and dropped around every driver call. Source:
 * c10/cuda/CUDACachingAllocator.cpp: malloc, alloc_block, release_cached_blocks. */
#include "segments/classic/torch/torch_cache.h"

/* The state of one request: a spare block for a split, and the turn. */
typedef struct attempt {
    pl_torch_block *spare;
    pl_turn turn;
} attempt;

pleat_status pl_torch_release_cached(pl_torch *t, uint64_t keep_bytes, bool wait,
                                     uint64_t *released)
{
    pl_lock_assert(&t->base.lock);
    pleat_status st = PLEAT_OK;
    if (wait) {
        t->base.stats.num_sync_all_streams++;
        st = pl_torch_wait_uses(t);
    }
    pleat_status freed = t->source->release(t, keep_bytes, released);
    return st == PLEAT_OK ? freed : st;
}

/* alloc_block: one try. */
static pleat_status try_grow(pl_torch *t, const pl_torch_request *r, attempt *a,
                             pl_torch_block **out)
{
    uint64_t limit = pl_torch_limit(t);
    pl_waiter_see(&t->base.waiter, &a->turn);
    if (limit != 0 && t->base.reserved_bytes + t->base.growing_bytes + r->segment_bytes > limit) {
        return PLEAT_ENOMEM_DEVICE;
    }
    pl_waiter_leave(&t->base.waiter);
    pleat_status st = t->source->grow(t, r, out);
    pl_waiter_return(&t->base.waiter, &a->turn);
    return st;
}

/* The last step before waiting. Everything cached goes back, then one more try. Not on a stream
 * that is being captured. */
static pleat_status retry(pl_torch *t, const pl_torch_request *r, attempt *a, pl_torch_block **out)
{
    pl_lock_release(&t->base.lock);
    bool is_capturing = false;
    pleat_status st = pl_stream_is_capturing(r->stream, &is_capturing);
    pl_lock_acquire(&t->base.lock);
    if (st != PLEAT_OK || is_capturing) {
        return st != PLEAT_OK ? st : PLEAT_ENOMEM_DEVICE;
    }
    uint64_t released = 0;
    st = pl_torch_release_cached(t, 0, true, &released);
    if (st != PLEAT_OK) {
        return st;
    }
    t->base.stats.num_alloc_retries++;
    return try_grow(t, r, a, out);
}

/* Steps 6 to 11 of malloc. */
static pleat_status get_memory(pl_torch *t, const pl_torch_request *r, attempt *a,
                               pl_torch_block **out)
{
    pleat_status st = pl_torch_collects(t) ? t->source->collect(t) : PLEAT_OK;
    if (st != PLEAT_OK) {
        return st;
    }
    st = try_grow(t, r, a, out);
    if (st != PLEAT_ENOMEM_DEVICE) {
        return st;
    }
    bool enough = false;
    st = t->options.max_split_bytes == SIZE_MAX ? PLEAT_OK
                                                : t->source->release_oversize(t, r, &enough);
    if (st != PLEAT_OK) {
        return st;
    }
    st = enough ? try_grow(t, r, a, out) : PLEAT_ENOMEM_DEVICE;
    return st == PLEAT_ENOMEM_DEVICE ? retry(t, r, a, out) : st;
}

static pleat_status grow_with(pl_torch *t, const pl_torch_request *r, attempt *a,
                              pl_torch_block **out)
{
    pl_torch_block *block = NULL;
    pleat_status st = get_memory(t, r, a, &block);
    while (pl_cache_may_try(&t->base, &a->turn, st, r->rounded_bytes)) {
        block = pl_torch_find_free(t, r);
        if (block) {
            pl_torch_take_out(t, block);
            st = PLEAT_OK;
        } else {
            st = get_memory(t, r, a, &block);
        }
    }
    if (st != PLEAT_OK) {
        return st;
    }
    pl_torch_block *spare = NULL;
    if (pl_torch_should_split(t, block, r->rounded_bytes)) {
        spare = a->spare;
        a->spare = NULL;
    }
    *out = pl_torch_hand_out(t, block, spare, r);
    return PLEAT_OK;
}

pleat_status pl_torch_grow(pl_torch *t, const pl_torch_request *r, pl_torch_block **out)
{
    pl_lock_assert(&t->base.lock);
    attempt a = {
        .spare = pl_meta_alloc(&t->base.meta, sizeof *a.spare),
        .turn = pl_waiter_begin(&t->base.waiter),
    };
    if (!a.spare) {
        return PLEAT_ENOMEM_HOST;
    }
    pleat_status st = grow_with(t, r, &a, out);
    pl_meta_free(&t->base.meta, a.spare);
    return st;
}

/* A stream out of reach may have work pending as well: then the whole device is waited for. */
void pl_torch_wait_for_streams(pl_torch *t)
{
    pl_lock_release(&t->base.lock);
    bool is_over = true;
    for (unsigned i = 0; i < pl_stream_count(t->base.dev); i++) {
        pl_stream *stream = pl_stream_at(t->base.dev, i);
        is_over = (pl_stream_synchronize(stream) == PLEAT_OK ||
                   pl_stream_synchronize(stream) == PLEAT_OK) &&
                  is_over;
    }
    if (!is_over) {
        (void)!pl_device_synchronize(t->base.dev);
    }
    pl_lock_acquire(&t->base.lock);
}
