/* torch_event.c - uses of blocks by streams other than the owner.
 *
 *   record_stream        free                          fence has passed
 *   block->uses   -->    queue of the stream    -->    gone; with the last one the block is free
 *                   \->  held (stream captured) -->    queue, at release_capture
 *
 * Upholds I5 of torch_cache.h. Host memory for a use is allocated when the use is recorded, so that
 * a free needs none. Guarded by the allocator's lock, which is dropped around every call that
 * reaches the driver. Only one thread at a time removes uses from queues (is_polling). All other
 * threads only append. So a queue's first use stays while the thread queries its fence without the
 * lock. Source: c10/cuda/CUDACachingAllocator.cpp: recordStream, insert_events, process_events,
 * synchronize_and_free_events. */
#include "segments/classic/torch/torch_cache.h"

static pleat_status reserve_queue(pl_torch *t, unsigned index)
{
    if (index < t->n_queues) {
        return PLEAT_OK;
    }
    unsigned n = index + 1;
    pl_torch_queue *queues = pl_meta_realloc(&t->base.meta, t->queues, n * sizeof *queues);
    if (!queues) {
        return PLEAT_ENOMEM_HOST;
    }
    for (unsigned i = t->n_queues; i < n; i++) {
        queues[i] = (pl_torch_queue){ 0 };
    }
    t->queues = queues;
    t->n_queues = n;
    return PLEAT_OK;
}

pleat_status pl_torch_add_use(pl_torch *t, pl_torch_block *block, pl_stream *stream, bool *added)
{
    pl_lock_assert(&t->base.lock);
    *added = false;
    if (stream == block->stream) {
        return PLEAT_OK;
    }
    for (const pl_torch_use *use = block->uses; use; use = use->next) {
        if (use->stream == stream) {
            return PLEAT_OK;
        }
    }
    pleat_status st = reserve_queue(t, pl_stream_index(stream));
    if (st != PLEAT_OK) {
        return st;
    }
    pl_torch_use *use = pl_meta_alloc(&t->base.meta, sizeof *use);
    if (!use) {
        return PLEAT_ENOMEM_HOST;
    }
    *use = (pl_torch_use){ .next = block->uses, .block = block, .stream = stream };
    block->uses = use;
    *added = true;
    return PLEAT_OK;
}

void pl_torch_drop_newest_use(pl_torch *t, pl_torch_block *block)
{
    pl_lock_assert(&t->base.lock);
    pl_torch_use *use = block->uses;
    block->uses = use->next;
    pl_meta_free(&t->base.meta, use);
}

static void append(pl_torch *t, pl_torch_use *use)
{
    pl_torch_queue *queue = &t->queues[pl_stream_index(use->stream)];
    use->next = NULL;
    if (queue->last) {
        queue->last->next = use;
    } else {
        queue->first = use;
    }
    queue->last = use;
    t->n_queued++;
}

/* Without the lock. A captured stream has no fences. A use on such a stream gets none and is held
 * later. */
static pleat_status record_fences(pl_torch_use *uses)
{
    for (pl_torch_use *use = uses; use; use = use->next) {
        pleat_status st = pl_fence_record(use->stream, &use->fence);
        if (st == PLEAT_OK || st == PLEAT_ECAPTURE) {
            continue;
        }
        for (pl_torch_use *undo = uses; undo != use; undo = undo->next) {
            pl_fence_return(undo->fence);
            undo->fence = NULL;
        }
        return st;
    }
    return PLEAT_OK;
}

pleat_status pl_torch_queue_uses(pl_torch *t, pl_torch_block *block)
{
    pl_lock_assert(&t->base.lock);
    pl_assert(block->state == PL_TORCH_FREEING);
    pl_lock_release(&t->base.lock);
    pleat_status st = record_fences(block->uses);
    pl_lock_acquire(&t->base.lock);
    if (st != PLEAT_OK) {
        return st;
    }
    while (block->uses) {
        pl_torch_use *use = block->uses;
        block->uses = use->next;
        block->n_pending++;
        if (use->fence) {
            append(t, use);
        } else {
            use->next = t->held;
            t->held = use;
        }
    }
    return PLEAT_OK;
}

static void end_use(pl_torch *t, pl_torch_use *use)
{
    pl_torch_block *block = use->block;
    pl_fence_return(use->fence);
    pl_meta_free(&t->base.meta, use);
    if (--block->n_pending == 0) {
        block->state = PL_TORCH_TAKEN;
        pl_torch_recycle(t, block);
    }
}

/* End the first use of a queue, which is not empty. */
static void pop(pl_torch *t, pl_torch_queue *queue)
{
    pl_torch_use *use = queue->first;
    queue->first = use->next;
    if (!queue->first) {
        queue->last = NULL;
    }
    t->n_queued--;
    end_use(t, use);
}

/* Remove the finished uses of one queue. `wait`: wait on the host for the rest. */
static pleat_status poll_queue(pl_torch *t, unsigned index, bool wait)
{
    while (t->queues[index].first) {
        pl_fence *fence = t->queues[index].first->fence;
        pl_lock_release(&t->base.lock);
        bool passed = false;
        pleat_status st = pl_fence_query(fence, &passed);
        if (st == PLEAT_OK && !passed && wait) {
            st = pl_fence_wait(fence, UINT32_MAX);
            passed = st == PLEAT_OK;
        }
        pl_lock_acquire(&t->base.lock);
        if (!passed) {
            return st;
        }
        pop(t, &t->queues[index]);
    }
    return PLEAT_OK;
}

static pleat_status poll_all(pl_torch *t, bool wait)
{
    pleat_status first = PLEAT_OK;
    t->is_polling = true;
    for (unsigned i = 0; i < t->n_queues; i++) {
        pleat_status st = poll_queue(t, i, wait);
        first = first == PLEAT_OK ? st : first;
    }
    t->is_polling = false;
    pl_cond_broadcast(&t->base.waiter.changed);
    return first;
}

/* A failed query is no reason to fail an allocation: the use stays in the queue. */
void pl_torch_poll(pl_torch *t)
{
    pl_lock_assert(&t->base.lock);
    if (t->n_queued != 0 && !t->is_polling) {
        (void)poll_all(t, false);
    }
}

pleat_status pl_torch_wait_uses(pl_torch *t)
{
    pl_lock_assert(&t->base.lock);
    while (t->is_polling) {
        pl_lock_wait(&t->base.lock, &t->base.waiter.changed);
    }
    return t->n_queued != 0 ? poll_all(t, true) : PLEAT_OK;
}

/* Take the held uses of that stream out of the list. */
static pl_torch_use *take_held(pl_torch *t, const pl_stream *stream)
{
    pl_torch_use *taken = NULL;
    for (pl_torch_use **link = &t->held; *link;) {
        pl_torch_use *use = *link;
        if (use->stream != stream) {
            link = &use->next;
            continue;
        }
        *link = use->next;
        use->next = taken;
        taken = use;
        t->n_moving++;
    }
    return taken;
}

/* The uses may have begun before the capture. So they wait for a fence like all others. If
 * recording a fence failed, the use stays held. */
pleat_status pl_torch_release_held(pl_torch *t, pl_stream *stream)
{
    pl_lock_assert(&t->base.lock);
    pl_torch_use *taken = take_held(t, stream);
    pleat_status first = PLEAT_OK;
    while (taken) {
        pl_torch_use *use = taken;
        pleat_status st = PLEAT_EDRIVER;
        taken = use->next;
        if (first == PLEAT_OK) {
            pl_lock_release(&t->base.lock);
            st = pl_fence_record(stream, &use->fence);
            pl_lock_acquire(&t->base.lock);
            first = st;
        }
        t->n_moving--;
        if (st == PLEAT_OK) {
            append(t, use);
        } else {
            use->next = t->held;
            t->held = use;
        }
    }
    return first;
}

static void drop_list(pl_torch *t, pl_torch_use *use)
{
    while (use) {
        pl_torch_use *next = use->next;
        pl_fence_return(use->fence);
        pl_meta_free(&t->base.meta, use);
        use = next;
    }
}

void pl_torch_drop_uses(pl_torch *t)
{
    pl_lock_assert(&t->base.lock);
    for (unsigned i = 0; i < t->n_queues; i++) {
        drop_list(t, t->queues[i].first);
    }
    pl_meta_free(&t->base.meta, t->queues);
    t->queues = NULL;
    t->n_queues = 0;
    t->n_queued = 0;
    drop_list(t, t->held);
    t->held = NULL;
    for (pl_tree_node *node = pl_tree_first(&t->live); node; node = pl_tree_next(node)) {
        pl_torch_block *block = PL_TREE_ENTRY(node, pl_torch_block, node);
        drop_list(t, block->uses);
        block->uses = NULL;
    }
}
