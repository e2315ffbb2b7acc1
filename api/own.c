/* own.c - frees a block whose stream and device the caller does not name.
 *
 * The thread's fronts are tried first, which is what a block just allocated is freed to; then the
 * devices, the one that was right last first. What an allocator cannot free in passing is freed by
 * pleat_block_free on the stream that it was allocated on. Holds no lock. */
#include "api/block.h"

#include "api/adapters/find.h"
#include "api/front.h"

/* What pl_front_key is made of, but for the device. */
static const uint64_t key_without_device = ~((uint64_t)UINT16_MAX << 16);

static inline bool free_to_front(pl_front *front, pleat handle, pleat_devptr ptr)
{
    uint64_t key = atomic_load_explicit(&front->key, memory_order_relaxed);
    if ((key & key_without_device) != pl_handle_word(handle) || !pl_front_go_in(front, key)) {
        return false;
    }
    bool is_kept = front->free(front, ptr);
    pl_front_leave(front);
    return is_kept;
}

/* EPENDING: the block, if it is one of this device, goes the long way. */
static inline pleat_status free_on(pl_gpu *gpu, pleat_devptr ptr)
{
    bool may = gpu->ops->free_own != NULL && !pl_pools_are_routed(&gpu->pools) &&
               !pl_history_wants_stack(&gpu->history, PLEAT_HISTORY_FREE_FRAMES);
    return may ? gpu->ops->free_own(gpu->allocator, ptr) : PLEAT_EPENDING;
}

static pleat_status free_somewhere(pl_use use, pleat_devptr ptr)
{
    int n = use.instance->n_devices;
    int first = use.self->last_device < n ? use.self->last_device : 0;
    for (int i = 0; i < n; i++) {
        int device = first + i < n ? first + i : first + i - n;
        pl_gpu *gpu = pl_use_find_gpu(use.instance, device);
        pleat_status st = gpu ? free_on(gpu, ptr) : PLEAT_EFOREIGN;
        if (st == PLEAT_OK) {
            use.self->last_device = device;
            pl_gpu_debug_walk(gpu);
        }
        if (st != PLEAT_EFOREIGN) {
            return st;
        }
    }
    return PLEAT_EFOREIGN;
}

/* A stream that was destroyed before its blocks cannot be named any more. The block knows its own
 * stream and how to wait for one that is gone, so it is freed from the legacy stream instead. */
__attribute__((cold, noinline)) static pleat_status free_by_name(pleat handle, pleat_devptr ptr)
{
    pleat_block_info info = { .device = pl_caller_self.record->last_device };
    void *at = (void *)(uintptr_t)ptr;
    bool is_found = pl_find_block(handle, at, &info) == PLEAT_OK && info.base == ptr;
    pleat_status st = pleat_block_free(handle, info.device, ptr, is_found ? info.stream : NULL);
    if (is_found && (st == PLEAT_EDRIVER || st == PLEAT_ESTREAM)) {
        st = pleat_block_free(handle, info.device, ptr, NULL);
    }
    return st;
}

static __attribute__((noinline)) pleat_status free_behind(pleat handle, pleat_devptr ptr)
{
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    pleat_status st = free_somewhere(use, ptr);
    pl_use_leave(use);
    return __builtin_expect(st == PLEAT_OK, 1) ? st : free_by_name(handle, ptr);
}

pleat_status pl_block_free_own(pleat handle, pleat_devptr ptr)
{
    pl_fronts *own = pl_fronts_self;
    for (unsigned i = 0; own && i < PL_FRONTS_OF_THREAD; i++) {
        if (free_to_front(&own->front[i], handle, ptr)) {
            return PLEAT_OK;
        }
    }
    return free_behind(handle, ptr);
}
