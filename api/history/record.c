/* record.c - switches the recording of an instance's devices on and off.
 *
 * The instance keeps the last setting, for devices opened later. Guarded by the instance's lock:
 * rings are made and put in place under the lock, without a driver call. */
#include "api/instance/instance.h"
#include "vmm/base/cancel.h"

static pleat_status refuse_record(size_t max_entries, unsigned flags, unsigned known)
{
    if ((flags & ~known) != 0) {
        return pl_error_set(PLEAT_EINVAL, 0, "pleat_history_record: unknown flags 0x%x", flags);
    }
    return pl_error_set(PLEAT_EINVAL, max_entries,
                        "pleat_history_record: %zu entries were asked for, the most are %d",
                        max_entries, (int)PL_HISTORY_MOST_ENTRIES);
}

static pleat_status record_locked(pl_instance *instance, size_t max_entries, unsigned flags)
{
    pl_history_ring *rings[PL_N_DEVICES] = { NULL };
    pleat_status st = PLEAT_OK;
    int n_prepared = 0;
    for (; n_prepared < instance->n_devices && st == PLEAT_OK; n_prepared++) {
        pl_gpu *gpu = pl_use_find_gpu(instance, n_prepared);
        if (gpu) {
            st = pl_history_prepare(&gpu->history, max_entries, flags, &rings[n_prepared]);
        }
    }
    for (int i = 0; i < n_prepared; i++) {
        pl_gpu *gpu = pl_use_find_gpu(instance, i);
        if (gpu && st == PLEAT_OK) {
            pl_history_commit(&gpu->history, rings[i], max_entries, flags);
        } else if (gpu) {
            pl_history_drop(&gpu->history, rings[i]);
        }
    }
    if (st == PLEAT_OK) {
        instance->history_entries = max_entries;
        instance->history_flags = flags;
    }
    return st;
}

pleat_status pleat_history_record(pleat handle, size_t max_entries, unsigned flags)
{
    const unsigned known = PLEAT_HISTORY_FRAMES | PLEAT_HISTORY_FREE_FRAMES | PLEAT_HISTORY_KEEP;
    if ((flags & ~known) != 0 || max_entries > PL_HISTORY_MOST_ENTRIES) {
        return refuse_record(max_entries, flags, known);
    }
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    int cancel = pl_cancel_off(); /* the first stack of a process loads the unwinder */
    pl_stack_prepare();
    pl_cancel_restore(cancel);
    pl_lock_acquire(&use.instance->lock);
    pleat_status st = record_locked(use.instance, max_entries, flags);
    pl_lock_release(&use.instance->lock);
    if (st != PLEAT_OK) {
        pl_error_set(st, max_entries, "there is no host memory for a history of %zu entries",
                     max_entries);
    }
    pl_use_leave(use);
    return st;
}

pleat_status pl_history_follow(pl_gpu *gpu)
{
    const pl_instance *instance = gpu->instance;
    pl_history_ring *ring;
    pl_lock_assert(&instance->lock);
    pl_history_watch(&gpu->history, instance->watch, instance->watch_context);
    if (instance->history_entries == 0) {
        pl_history_skip(&gpu->history);
        return PLEAT_OK;
    }
    pleat_status st = pl_history_prepare(&gpu->history, instance->history_entries,
                                         instance->history_flags, &ring);
    if (st == PLEAT_OK) {
        pl_history_commit(&gpu->history, ring, instance->history_entries, instance->history_flags);
    }
    return st;
}
