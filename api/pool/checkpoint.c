/* checkpoint.c - the checkpoints of a device's private pools: taken, restored, visited, released.
 *
 * A checkpoint is the allocator's roster of a pool's live blocks (segments/base/roster.h), in a
 * table by number. A checkpoint names its pool, and the roster knows whether the name still means
 * the same pool. The table's lock (rank 10) is not held in calls of the allocator or the user. */
#include "api/pool/pool_state.h"
#include "vmm/base/cancel.h"

static _Atomic uint64_t last_number; /* of all instances: no two checkpoints share a number */

/* ---- the table ---- */

static pl_checkpoint *entry(const pl_tree_node *node)
{
    return node ? PL_TREE_ENTRY(node, pl_checkpoint, node) : NULL;
}

static bool is_before(const pl_tree_node *a, const pl_tree_node *b)
{
    return entry(a)->number < entry(b)->number;
}

void pl_pools_init_checkpoints(pl_pools *pools)
{
    pl_tree_init(&pools->checkpoints, is_before);
}

static pl_checkpoint *find_locked(const pl_pools *pools, pleat_checkpoint handle)
{
    pl_checkpoint key = { .number = handle.number };
    pl_checkpoint *found = entry(pl_tree_floor(&pools->checkpoints, &key.node));
    return found && found->number == handle.number ? found : NULL;
}

/* Counts the caller as a reader; NULL: no checkpoint has that number. */
static pl_checkpoint *begin_reading(pl_pools *pools, pleat_checkpoint handle)
{
    pl_lock_acquire(&pools->lock);
    pl_checkpoint *checkpoint = find_locked(pools, handle);
    if (checkpoint) {
        checkpoint->n_readers++;
    }
    pl_lock_release(&pools->lock);
    return checkpoint;
}

static void end_reading(pl_pools *pools, pl_checkpoint *checkpoint)
{
    pl_lock_acquire(&pools->lock);
    checkpoint->n_readers--;
    pl_lock_release(&pools->lock);
}

static pleat_status enter(pl_pools *pools, const pl_checkpoint *made_as)
{
    pl_lock_acquire(&pools->lock);
    pl_checkpoint *checkpoint = pl_meta_alloc(&pools->meta, sizeof *checkpoint);
    if (checkpoint) {
        *checkpoint = *made_as;
        pl_tree_insert(&pools->checkpoints, &checkpoint->node);
    }
    pl_lock_release(&pools->lock);
    return checkpoint ? PLEAT_OK : PLEAT_ENOMEM_HOST;
}

/* Takes the checkpoint out of the table and gives its memory back, except the roster in *out.
 * PLEAT_OK, EINVAL or EBUSY. */
static pleat_status part(pl_pools *pools, pleat_checkpoint handle, pl_roster *out)
{
    pl_lock_acquire(&pools->lock);
    pl_checkpoint *checkpoint = find_locked(pools, handle);
    pleat_status st = !checkpoint                 ? PLEAT_EINVAL
                      : checkpoint->n_readers > 0 ? PLEAT_EBUSY
                                                  : PLEAT_OK;
    if (st == PLEAT_OK) {
        *out = checkpoint->roster;
        pl_tree_remove(&pools->checkpoints, &checkpoint->node);
        pl_meta_free(&pools->meta, checkpoint);
    }
    pl_lock_release(&pools->lock);
    return st;
}

void pl_pools_forget_checkpoints(pl_pools *pools)
{
    for (pl_checkpoint *c; (c = entry(pl_tree_first(&pools->checkpoints))) != NULL;) {
        pl_tree_remove(&pools->checkpoints, &c->node);
        pools->gpu->ops->pools->drop_roster(pools->gpu->allocator, &c->roster);
        pl_meta_free(&pools->meta, c);
    }
}

/* ---- words ---- */

static pleat_status refuse_unknown(int device, pleat_checkpoint handle)
{
    return pl_error_set(PLEAT_EINVAL, 0,
                        "device %d has no checkpoint %llu: it was released, or is another device's",
                        device, (unsigned long long)handle.number);
}

static pleat_status refuse_at(int device, pleat_pool_id id, pleat_status st, pleat_devptr at)
{
    return pl_error_set(
        st, 0, "device %d, private pool (%llu, %llu), checkpoint's block at 0x%llx: %s", device,
        (unsigned long long)id.first, (unsigned long long)id.second, (unsigned long long)at,
        st == PLEAT_EPENDING
            ? "other streams or a graph may still use what lies there; synchronise "
              "them, or free it on its own stream"
            : pleat_status_text(st));
}

static pleat_status refuse_restore(int device, pleat_pool_id id, pleat_status st, pleat_devptr at)
{
    switch (st) {
    case PLEAT_EPOOL:
        return pl_pools_refuse(device, id, st, "it was released since the checkpoint was taken");
    case PLEAT_EBUSY:
        return pl_pools_refuse(device, id, st, "requests to it are under way");
    case PLEAT_ENOMEM_HOST:
        return pl_pools_refuse(device, id, st, pleat_status_text(st));
    default:
        return refuse_at(device, id, st, at);
    }
}

/* ---- telling ---- */

static pleat_pool_block block_of(const pl_roster_block *told)
{
    return (pleat_pool_block){
        .base = told->base,
        .bytes = told->bytes,
        .requested_bytes = told->requested,
        .stream = told->stream,
    };
}

static void tell_restored(const pl_restored *restored, pleat_restored_fn see, void *context)
{
    pl_lock_assert_none();
    int cancel = pl_cancel_off();
    for (pl_roster_cursor c = pl_roster_begin(&restored->freed); pl_roster_at(&c);
         pl_roster_next(&c)) {
        pleat_pool_block block = block_of(pl_roster_at(&c));
        see(context, PLEAT_RESTORED_FREED, &block);
    }
    for (pl_roster_cursor c = pl_roster_begin(&restored->live); pl_roster_at(&c);
         pl_roster_next(&c)) {
        pleat_pool_block block = block_of(pl_roster_at(&c));
        bool is_made = pl_roster_at(&c)->is_made;
        see(context, is_made ? PLEAT_RESTORED_MADE : PLEAT_RESTORED_KEPT, &block);
    }
    pl_cancel_restore(cancel);
}

static void tell(const pl_roster *roster, pleat_block_fn see, void *context)
{
    pl_lock_assert_none();
    int cancel = pl_cancel_off();
    for (pl_roster_cursor c = pl_roster_begin(roster); pl_roster_at(&c); pl_roster_next(&c)) {
        pleat_pool_block block = block_of(pl_roster_at(&c));
        see(context, &block);
    }
    pl_cancel_restore(cancel);
}

/* ---- taking ---- */

static pleat_status take(pl_gpu *gpu, pleat_pool_id id, pleat_checkpoint *out)
{
    pl_pools *pools = &gpu->pools;
    pl_checkpoint made_as = { .id = id };
    if (!gpu->ops->pools) {
        return PLEAT_ENOTSUP;
    }
    pl_pool *pool = pl_pools_enter(pools, id);
    if (!pool) {
        return PLEAT_EPOOL;
    }
    pleat_status st = gpu->ops->pools->save(gpu->allocator, pool->in, &made_as.roster);
    pl_pool_leave(pools, pool);
    if (st != PLEAT_OK) {
        return st;
    }
    made_as.number = atomic_fetch_add(&last_number, 1) + 1;
    st = enter(pools, &made_as);
    if (st != PLEAT_OK) {
        gpu->ops->pools->drop_roster(gpu->allocator, &made_as.roster);
        return st;
    }
    *out = (pleat_checkpoint){ .number = made_as.number };
    return PLEAT_OK;
}

pleat_status pleat_checkpoint_take(pleat handle, int device, pleat_pool_id id,
                                   pleat_checkpoint *out)
{
    pl_gpu *gpu = NULL;
    if (!out) {
        return pl_error_set(PLEAT_EINVAL, 0, "pleat_checkpoint_take: an out-parameter is NULL");
    }
    pl_use use = pl_use_enter(handle);
    pleat_status st = pl_pools_find_gpu(use, device, &gpu);
    if (st == PLEAT_OK) {
        st = gpu ? take(gpu, id, out) : PLEAT_EPOOL;
        if (st != PLEAT_OK) {
            pl_pools_refuse(device, id, st, pleat_status_text(st));
        }
    }
    if (use.instance) {
        pl_use_leave(use);
    }
    return st;
}

/* ---- restoring ---- */

static pleat_status restore(pl_gpu *gpu, const pl_checkpoint *checkpoint, unsigned flags,
                            pl_restored *out)
{
    uint32_t wait_ms = gpu->instance->config.options.wait_ms;
    pl_pool *pool;
    pleat_status st = pl_pools_close(&gpu->pools, checkpoint->id, wait_ms, &pool);
    if (st != PLEAT_OK) {
        return st;
    }
    st = gpu->ops->pools->restore(gpu->allocator, pool->in, &checkpoint->roster,
                                  (flags & PLEAT_RESTORE_SETTLED) != 0, out);
    pl_pool_reopen(&gpu->pools, pool);
    return st;
}

static pleat_status restore_and_tell(pl_gpu *gpu, pl_checkpoint *checkpoint, unsigned flags,
                                     pleat_restored_fn see, void *context)
{
    pl_restored restored = { 0 };
    pleat_status st = restore(gpu, checkpoint, flags, &restored);
    if (st != PLEAT_OK) {
        return refuse_restore(gpu->ordinal, checkpoint->id, st, restored.odd);
    }
    pl_gpu_debug_walk(gpu);
    if (see) {
        tell_restored(&restored, see, context);
    }
    gpu->ops->pools->drop_roster(gpu->allocator, &restored.freed);
    gpu->ops->pools->drop_roster(gpu->allocator, &restored.live);
    return PLEAT_OK;
}

/* Find a checkpoint and count the caller as its reader. NULL: none; the last error says so. */
static pl_checkpoint *find(pl_use use, int device, pleat_checkpoint handle, pl_gpu **gpu)
{
    if (pl_pools_find_gpu(use, device, gpu) != PLEAT_OK) {
        return NULL;
    }
    pl_checkpoint *checkpoint = *gpu ? begin_reading(&(*gpu)->pools, handle) : NULL;
    if (!checkpoint) {
        (void)refuse_unknown(device, handle);
    }
    return checkpoint;
}

pleat_status pleat_checkpoint_restore(pleat handle, int device, pleat_checkpoint checkpoint,
                                      unsigned flags, pleat_restored_fn see, void *context)
{
    pl_gpu *gpu = NULL;
    if ((flags & ~(unsigned)PLEAT_RESTORE_SETTLED) != 0) {
        return pl_error_set(PLEAT_EINVAL, 0, "pleat_checkpoint_restore: unknown flags 0x%x", flags);
    }
    pl_use use = pl_use_enter(handle);
    pl_checkpoint *found = find(use, device, checkpoint, &gpu);
    pleat_status st = found ? restore_and_tell(gpu, found, flags, see, context) : pl_error_status();
    if (found) {
        end_reading(&gpu->pools, found);
    }
    if (use.instance) {
        pl_use_leave(use);
    }
    return st;
}

/* ---- the rest ---- */

pleat_status pleat_checkpoint_visit(pleat handle, int device, pleat_checkpoint checkpoint,
                                    pleat_block_fn see, void *context)
{
    pl_gpu *gpu = NULL;
    if (!see) {
        return pl_error_set(PLEAT_EINVAL, 0, "pleat_checkpoint_visit: nobody is to be told");
    }
    pl_use use = pl_use_enter(handle);
    pl_checkpoint *found = find(use, device, checkpoint, &gpu);
    pleat_status st = found ? PLEAT_OK : pl_error_status();
    if (found) {
        tell(&found->roster, see, context);
        end_reading(&gpu->pools, found);
    }
    if (use.instance) {
        pl_use_leave(use);
    }
    return st;
}

pleat_status pleat_checkpoint_release(pleat handle, int device, pleat_checkpoint checkpoint)
{
    pl_gpu *gpu = NULL;
    pl_roster roster = { 0 };
    pl_use use = pl_use_enter(handle);
    pleat_status st = pl_pools_find_gpu(use, device, &gpu);
    if (st == PLEAT_OK) {
        st = gpu ? part(&gpu->pools, checkpoint, &roster) : PLEAT_EINVAL;
        if (st == PLEAT_OK) {
            gpu->ops->pools->drop_roster(gpu->allocator, &roster);
        } else if (st == PLEAT_EINVAL) {
            (void)refuse_unknown(device, checkpoint);
        } else {
            pl_error_set(st, 0, "device %d: checkpoint %llu is being restored or visited", device,
                         (unsigned long long)checkpoint.number);
        }
    }
    if (use.instance) {
        pl_use_leave(use);
    }
    return st;
}
