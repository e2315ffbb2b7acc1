/* torch_pinned_queue.c - uses of pinned blocks, and the queue of their fences: see torch_pinned.h.
 *
 * Upholds I3 and I4. Host memory for a use is allocated when the use is noted, so that a free needs
 * none. Guarded by the allocator's lock, which is dropped around every call that reaches the
 * driver. Only one thread at a time removes uses from the queue. All other threads only append. So
 * the queue's first use stays while the thread queries its fence without the lock. Source:
 * CachingHostAllocatorImpl, free, record_event and process_events, of PyTorch. */
#include "segments/classic/torch/torch_pinned.h"

pleat_status pl_pinned_add_use(pl_pinned *p, pl_pinned_block *b, pl_stream *stream)
{
    pl_lock_assert(&p->base.lock);
    if (pl_stream_is_idle(stream)) {
        return PLEAT_OK;
    }
    for (const pl_pinned_use *use = b->uses; use; use = use->next) {
        if (use->stream == stream) {
            return PLEAT_OK;
        }
    }
    pl_pinned_use *use = pl_meta_alloc(&p->base.meta, sizeof *use);
    if (!use) {
        return PLEAT_ENOMEM_HOST;
    }
    *use = (pl_pinned_use){ .next = b->uses, .block = b, .stream = stream };
    b->uses = use;
    return PLEAT_OK;
}

/* ---- free ------------------------------------------------------------------------------------ */

/* Without the lock. A captured stream has no fences. */
static pleat_status record_fences(pl_pinned_use *uses)
{
    for (pl_pinned_use *use = uses; use; use = use->next) {
        pleat_status st = pl_fence_record(use->stream, &use->fence);
        if (st == PLEAT_OK || st == PLEAT_ECAPTURE) {
            continue;
        }
        for (pl_pinned_use *undo = uses; undo != use; undo = undo->next) {
            if (undo->fence) {
                pl_fence_return(undo->fence);
                undo->fence = NULL;
            }
        }
        return st;
    }
    return PLEAT_OK;
}

static void append(pl_pinned *p, pl_pinned_use *use)
{
    use->next = NULL;
    if (p->last) {
        p->last->next = use;
    } else {
        p->first = use;
    }
    p->last = use;
    p->n_queued++;
}

static void end_live(pl_pinned *p, pl_pinned_block *b)
{
    unsigned pool = pl_stats_pool(pl_pinned_bytes(b));
    pl_stats_sub(p->base.stats.allocation, pool, 1);
    pl_stats_sub(p->base.stats.allocated_bytes, pool, pl_pinned_bytes(b));
    p->base.stats.rounding_bytes -= pl_pinned_bytes(b) - b->requested_bytes;
    pl_tell(p->base.observer, PL_ACTION_FREE_REQUESTED, b->ptr, b->requested_bytes, b->stream,
            NULL);
}

static void cache(pl_pinned *p, pl_pinned_block *b)
{
    unsigned pool = pl_stats_pool(pl_pinned_bytes(b));
    pl_stats_sub(p->base.stats.active, pool, 1);
    pl_stats_sub(p->base.stats.active_bytes, pool, pl_pinned_bytes(b));
    pl_stats_sub(p->base.stats.requested_bytes, pool, b->requested_bytes);
    pl_tell(p->base.observer, PL_ACTION_FREE_COMPLETED, b->ptr, b->requested_bytes, b->stream,
            NULL);
    b->state = PL_PINNED_CACHED;
    b->next = p->lists[b->class];
    p->lists[b->class] = b;
}

/* A use without a fence never ends: the graph may run at any time. */
static void queue_uses(pl_pinned *p, pl_pinned_block *b)
{
    b->state = PL_PINNED_PENDING;
    p->pending_bytes += pl_pinned_bytes(b);
    while (b->uses) {
        pl_pinned_use *use = b->uses;
        b->uses = use->next;
        b->n_pending++;
        if (use->fence) {
            append(p, use);
        } else {
            pl_meta_free(&p->base.meta, use);
        }
    }
}

pleat_status pl_pinned_retire(pl_pinned *p, pl_pinned_block *b)
{
    pl_lock_assert(&p->base.lock);
    pleat_status st = PLEAT_OK;
    if (b->uses) {
        b->state = PL_PINNED_FREEING;
        pl_lock_release(&p->base.lock);
        st = record_fences(b->uses);
        pl_lock_acquire(&p->base.lock);
        b->state = PL_PINNED_LIVE;
    }
    if (st != PLEAT_OK) {
        return st;
    }
    end_live(p, b);
    if (b->uses) {
        queue_uses(p, b);
    } else {
        cache(p, b);
    }
    return PLEAT_OK;
}

/* ---- polling --------------------------------------------------------------------------------- */

/* The first use of the queue is over. */
static void pop(pl_pinned *p)
{
    pl_pinned_use *use = p->first;
    pl_pinned_block *b = use->block;
    p->first = use->next;
    p->last = p->first ? p->last : NULL;
    p->n_queued--;
    pl_fence_return(use->fence);
    pl_meta_free(&p->base.meta, use);
    if (--b->n_pending == 0) {
        p->pending_bytes -= pl_pinned_bytes(b);
        cache(p, b);
    }
}

static pleat_status poll_until_unready(pl_pinned *p, bool wait)
{
    while (p->first) {
        pl_fence *fence = p->first->fence;
        bool passed = false;
        pl_lock_release(&p->base.lock);
        pleat_status st = pl_fence_query(fence, &passed);
        if (st == PLEAT_OK && !passed && wait) {
            st = pl_fence_wait(fence, UINT32_MAX);
            passed = st == PLEAT_OK;
        }
        pl_lock_acquire(&p->base.lock);
        if (!passed) {
            return st;
        }
        pop(p);
    }
    return PLEAT_OK;
}

pleat_status pl_pinned_poll(pl_pinned *p, bool wait)
{
    pl_lock_assert(&p->base.lock);
    while (p->is_polling && wait) {
        pl_lock_wait(&p->base.lock, &p->polled);
    }
    if (!p->first || p->is_polling) {
        return PLEAT_OK;
    }
    p->is_polling = true;
    pleat_status st = poll_until_unready(p, wait);
    p->is_polling = false;
    pl_cond_broadcast(&p->polled);
    return st;
}

void pl_pinned_drop_uses(pl_pinned *p)
{
    while (p->first) {
        pl_pinned_use *use = p->first;
        p->first = use->next;
        pl_fence_return(use->fence);
        pl_meta_free(&p->base.meta, use);
    }
    p->last = NULL;
    p->n_queued = 0;
    for (pl_tree_node *node = pl_tree_first(&p->by_address); node; node = pl_tree_next(node)) {
        pl_pinned_block *b = PL_TREE_ENTRY(node, pl_pinned_block, node);
        while (b->uses) {
            pl_pinned_use *use = b->uses;
            b->uses = use->next;
            pl_meta_free(&p->base.meta, use);
        }
    }
}
