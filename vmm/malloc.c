/* malloc.c - whole allocations of the driver, for the classic caches.
 *
 * A table from address to size lists the held allocations. So the counters are exact, and a foreign
 * address is refused before reaching the driver. Guarded by the device's lock, which is dropped for
 * the driver's call. A slot is promised first, so noting the allocation cannot fail. */
#include "vmm/device_state.h"

enum { FIRST_SLOTS = 64 };

static size_t home_slot(const pl_malloc_table *table, pleat_devptr ptr)
{
    return (size_t)((ptr >> 9) * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (table->n_slots - 1);
}

static pl_malloc_piece *find_slot(const pl_malloc_table *table, pleat_devptr ptr)
{
    size_t at = home_slot(table, ptr);
    while (table->pieces[at].ptr != 0 && table->pieces[at].ptr != ptr) {
        at = (at + 1) & (table->n_slots - 1);
    }
    return &table->pieces[at];
}

static bool grow_locked(pl_device *dev)
{
    pl_lock_assert(&dev->lock);
    pl_malloc_table *old = &dev->mallocs;
    pl_malloc_table grown = { .n_slots = old->n_slots != 0 ? old->n_slots * 2 : FIRST_SLOTS };
    grown.n_pieces = old->n_pieces;
    grown.pieces = pl_meta_calloc(&dev->meta, grown.n_slots, sizeof(*grown.pieces));
    if (grown.pieces == NULL) {
        return false;
    }
    for (size_t i = 0; i < old->n_slots; i++) {
        if (old->pieces[i].ptr != 0) {
            *find_slot(&grown, old->pieces[i].ptr) = old->pieces[i];
        }
    }
    pl_meta_free(&dev->meta, old->pieces);
    *old = grown;
    return true;
}

/* Counts a piece in and makes sure of a slot. */
static bool promise_slot(pl_device *dev)
{
    pl_lock_acquire(&dev->lock);
    bool has_room = (dev->mallocs.n_pieces + 1) * 2 <= dev->mallocs.n_slots || grow_locked(dev);
    dev->mallocs.n_pieces += has_room ? 1 : 0;
    pl_lock_release(&dev->lock);
    return has_room;
}

static void forget_promise(pl_device *dev)
{
    pl_lock_acquire(&dev->lock);
    dev->mallocs.n_pieces--;
    pl_lock_release(&dev->lock);
}

static void fill_slot(pl_device *dev, pleat_devptr ptr, size_t bytes)
{
    pl_lock_acquire(&dev->lock);
    *find_slot(&dev->mallocs, ptr) = (pl_malloc_piece){ .ptr = ptr, .bytes = bytes };
    pl_lock_release(&dev->lock);
}

/* Empties the slot and closes the gap, so that probes do not stop before a later piece. The piece
 * stays counted, and its slot is promised to the caller. */
static size_t take_out(pl_device *dev, pleat_devptr ptr)
{
    pl_lock_acquire(&dev->lock);
    pl_malloc_table *table = &dev->mallocs;
    pl_malloc_piece *found = table->n_slots != 0 && ptr != 0 ? find_slot(table, ptr) : NULL;
    if (found == NULL || found->ptr != ptr) {
        pl_lock_release(&dev->lock);
        return 0;
    }
    size_t bytes = found->bytes;
    size_t mask = table->n_slots - 1;
    size_t hole = (size_t)(found - table->pieces);
    table->pieces[hole] = (pl_malloc_piece){ .ptr = 0 };
    for (size_t at = (hole + 1) & mask; table->pieces[at].ptr != 0; at = (at + 1) & mask) {
        size_t home = home_slot(table, table->pieces[at].ptr);
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            table->pieces[hole] = table->pieces[at];
            table->pieces[at] = (pl_malloc_piece){ .ptr = 0 };
            hole = at;
        }
    }
    pl_lock_release(&dev->lock);
    return bytes;
}

/* The host's memory is for all contexts. */
static cu_result allocate(pl_device *dev, size_t bytes, cu_devptr *out)
{
    void *ptr = NULL;
    if (!dev->is_host) {
        return pl_cu_mem_alloc(dev->drv, out, bytes);
    }
    cu_result result = pl_cu_host_alloc(dev->drv, &ptr, bytes, CU_HOST_PORTABLE | CU_HOST_MAPPED);
    *out = (uintptr_t)ptr;
    return result;
}

static cu_result give_back(pl_device *dev, pleat_devptr ptr)
{
    return dev->is_host ? pl_cu_host_free(dev->drv, (void *)(uintptr_t)ptr)
                        : pl_cu_mem_free(dev->drv, ptr);
}

pleat_status pl_device_malloc(pl_device *dev, size_t bytes, pleat_devptr *out)
{
    if (bytes == 0) {
        return PLEAT_EINVAL;
    }
    if (!promise_slot(dev)) {
        return PLEAT_ENOMEM_HOST;
    }
    pl_scope scope;
    pleat_status st = pl_scope_begin(dev, &scope);
    if (st != PLEAT_OK) {
        goto undo_promise;
    }
    cu_devptr ptr = 0;
    cu_result result = allocate(dev, bytes, &ptr);
    pl_scope_end(dev, &scope);
    if (result != CU_SUCCESS) {
        st = pl_driver_status(result);
        goto undo_promise;
    }
    fill_slot(dev, ptr, bytes);
    pl_count_add(&dev->n.ops_alloc, 1);
    pl_count_add(&dev->n.malloc_bytes, bytes);
    pl_count_add(&dev->n.bytes_created, bytes);
    pl_count_add(&dev->n.bytes_mapped, bytes);
    pl_mapping_tell(dev->watch, dev->ordinal, true, ptr, bytes);
    *out = ptr;
    return PLEAT_OK;

undo_promise:
    forget_promise(dev);
    return st;
}

pleat_status pl_device_mfree(pl_device *dev, pleat_devptr ptr)
{
    size_t bytes = take_out(dev, ptr);
    if (bytes == 0) {
        return PLEAT_EFOREIGN;
    }
    pl_mapping_tell(dev->watch, dev->ordinal, false, ptr, bytes);
    pl_scope scope;
    pleat_status st = pl_scope_begin(dev, &scope);
    if (st != PLEAT_OK) {
        goto undo_take;
    }
    cu_result result = give_back(dev, ptr);
    if (result != CU_SUCCESS) {
        result = give_back(dev, ptr);
    }
    pl_scope_end(dev, &scope);
    if (result != CU_SUCCESS) {
        st = pl_driver_failure(result);
        goto undo_take;
    }
    forget_promise(dev);
    pl_count_add(&dev->n.ops_free, 1);
    pl_count_sub(&dev->n.malloc_bytes, bytes);
    return PLEAT_OK;

undo_take:
    fill_slot(dev, ptr, bytes);
    return st;
}
