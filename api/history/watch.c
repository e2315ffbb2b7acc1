/* watch.c - reports the allocators' changes to a watcher.
 *
 * The instance keeps the watcher, for devices opened later. Guarded by the instance's lock. Each
 * device has a copy, guarded by the lock of its history, and calls the watcher under that lock. */
#include "api/instance/instance.h"
#include "api/snapshot/snapshot_state.h"

_Static_assert((int)PLEAT_CHANGE_SEGMENT_UNMAP == (int)PL_ACTION_SEGMENT_UNMAP &&
                   (int)PLEAT_CHANGE_SNAPSHOT == (int)PL_HISTORY_SNAPSHOT &&
                   (int)PLEAT_CHANGE_OOM == (int)PL_HISTORY_OOM,
               "a change has the number of its action");

pleat_status pleat_watch(pleat handle, pleat_change_fn see, void *context)
{
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    pl_instance *instance = use.instance;
    pl_lock_acquire(&instance->lock);
    instance->watch = see;
    instance->watch_context = context;
    for (int i = 0; i < instance->n_devices; i++) {
        pl_gpu *gpu = pl_use_find_gpu(instance, i);
        if (gpu) {
            pl_history_watch(&gpu->history, see, context);
        }
    }
    pl_lock_release(&instance->lock);
    pl_use_leave(use);
    return PLEAT_OK;
}

static pleat_piece piece_of(const pl_snapshot_state *state, const pl_snapshot_block *block)
{
    static const pleat_piece_use uses[] = {
        [PL_SNAPSHOT_ALLOCATED] = PLEAT_PIECE_LIVE,
        [PL_SNAPSHOT_PENDING] = PLEAT_PIECE_AWAITED,
        [PL_SNAPSHOT_INACTIVE] = PLEAT_PIECE_FREE,
    };
    bool has_pool = block->pool < state->n_pools;
    return (pleat_piece){
        .device = state->gpu->ordinal,
        .base = block->base,
        .bytes = block->bytes,
        .requested_bytes = block->requested_bytes,
        .stream = block->stream,
        .pool = has_pool ? state->pools[block->pool] : (pleat_pool_id){ 0, 0 },
        .use = uses[block->use],
        .is_first = block->is_first,
        .is_small = block->is_small,
        .is_expandable = state->gpu->ops->needs_vmm,
    };
}

static pleat_status visit_gpu(pl_gpu *gpu, void (*see)(const pleat_piece *, void *), void *context)
{
    pl_meta meta = { 0 };
    pl_snapshot_state state;
    pleat_status st = pl_meta_init(&meta);
    if (st != PLEAT_OK) {
        return pl_error_set(st, 0, "device %d: no host memory to copy its state", gpu->ordinal);
    }
    st = pl_snapshot_copy(gpu, &meta, &state);
    for (size_t i = 0; st == PLEAT_OK && i < state.n_blocks; i++) {
        pleat_piece piece = piece_of(&state, &state.blocks[i]);
        see(&piece, context);
    }
    pl_snapshot_forget(&meta, &state);
    (void)pl_meta_fini(&meta);
    return st == PLEAT_OK
               ? st
               : pl_error_set(st, 0, "device %d: no host memory to copy its state", gpu->ordinal);
}

pleat_status pleat_visit(pleat handle, int device, void (*see)(const pleat_piece *, void *),
                         void *context)
{
    if (!see) {
        return pl_error_set(PLEAT_EINVAL, 0, "pleat_visit: `see` is NULL");
    }
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    pl_gpu *gpu = pl_use_find_gpu(use.instance, device);
    pleat_status st = gpu ? visit_gpu(gpu, see, context)
                          : pl_use_check_device(use.instance, device);
    pl_use_leave(use);
    return st;
}
