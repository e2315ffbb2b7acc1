/* fence_pool.c - the pool of fences and their events.
 *
 * Events go back to a free list with their fences. An event that ever failed, or of a peer's
 * context, is destroyed at its fence's next use, in a call that records. A return cannot destroy
 * the event, since fences come back in holds of an allocator's lock. Fences are made in slabs and
 * live until the device is closed, as do the contexts of peers.
 *
 * Guarded by the device's lock, which is not held across a driver call. */
#include "vmm/device_state.h"
#include "vmm/left.h"

static bool add_slab_locked(pl_device *dev)
{
    pl_lock_assert(&dev->lock);
    pl_fence_slab *slab = pl_meta_calloc(&dev->meta, 1, sizeof(*slab));
    if (slab == NULL) {
        return false;
    }
    slab->next = dev->fences.slabs;
    dev->fences.slabs = slab;
    for (size_t i = 0; i < PL_FENCES_PER_SLAB; i++) {
        slab->fences[i].dev = dev;
        slab->fences[i].next = dev->fences.free;
        dev->fences.free = &slab->fences[i];
    }
    return true;
}

pl_fence *pl_fence_take(pl_device *dev)
{
    pl_fence *fence = NULL;
    pl_lock_acquire(&dev->lock);
    if (dev->fences.free != NULL || add_slab_locked(dev)) {
        fence = dev->fences.free;
        dev->fences.free = fence->next;
        dev->fences.n_out++;
    }
    pl_lock_release(&dev->lock);
    return fence;
}

void pl_fence_destroy_event(pl_device *dev, cu_event event)
{
    if (event == NULL) {
        return;
    }
    pl_scope scope;
    bool is_inside = pl_scope_begin(dev, &scope) == PLEAT_OK;
    pl_left_undo(dev, PL_LEFT_EVENT, (uintptr_t)event, 0);
    if (is_inside) {
        pl_scope_end(dev, &scope);
    }
}

void pl_fence_share(pl_fence *fence, uint32_t n)
{
    pl_lock_acquire(&fence->dev->lock);
    fence->n_shares += n;
    pl_lock_release(&fence->dev->lock);
}

/* Is this the last caller with the fence? */
static bool is_last_return(pl_fence *fence)
{
    pl_lock_acquire(&fence->dev->lock);
    bool is_last = fence->n_shares == 0;
    fence->n_shares -= is_last ? 0 : 1;
    pl_lock_release(&fence->dev->lock);
    return is_last;
}

static void put_back(pl_fence *fence)
{
    pl_device *dev = fence->dev;
    if (atomic_load_explicit(&fence->is_spoiled, memory_order_relaxed)) {
        fence->is_worn = true;
    }
    atomic_store_explicit(&fence->is_spoiled, false, memory_order_relaxed);
    atomic_store_explicit(&fence->has_passed, false, memory_order_relaxed);
    fence->is_whole_device = false;
    fence->also = NULL;
    pl_lock_acquire(&dev->lock);
    fence->next = dev->fences.free;
    dev->fences.free = fence;
    dev->fences.n_out--;
    pl_lock_release(&dev->lock);
}

void pl_fence_return(pl_fence *fence)
{
    if (fence == NULL || !is_last_return(fence)) {
        return;
    }
    while (fence != NULL) {
        pl_fence *also = fence->also;
        put_back(fence);
        fence = also;
    }
}

size_t pl_fences_fini(pl_device *dev)
{
    size_t n_out = dev->fences.n_out;
    pl_fence_slab *slab = dev->fences.slabs;
    while (slab != NULL) {
        for (size_t i = 0; i < PL_FENCES_PER_SLAB; i++) {
            pl_fence_destroy_event(dev, slab->fences[i].event);
        }
        pl_fence_slab *next = slab->next;
        pl_meta_free(&dev->meta, slab);
        slab = next;
    }
    return n_out;
}
