/* share.c - see share.h. The table of shared chunks, and mappings of foreign chunks.
 *
 * The table is guarded by the device's lock (rank 40), which is never held across a driver call. So
 * a chunk may be released during its export. Its number is forgotten before the release. If the
 * number is gone after the export, the exported descriptor is closed again.
 *
 *   old   |  a  | done|  b  |  -  |                      read where the larger table lacks a chunk
 *   now   |  -  |  -  |  a  |  -  |  c  |  -  |  -  |  -  |
 *
 * A table that grows has two arrays of slots for a while. Each newly numbered chunk moves some of
 * the old slots, so that no call moves them all in one hold of the lock. */
#include "vmm/share.h"

#include <fcntl.h>
#include <unistd.h>

#include "vmm/device_state.h"
#include "vmm/left.h"

enum { FIRST_SLOTS = 64 };

static _Atomic uint64_t last_number;

/* ---- the table ------------------------------------------------------------------------------- */

static size_t home_slot(const pl_share_slots *in, pl_chunk chunk)
{
    return (size_t)(chunk * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (in->n - 1);
}

/* The chunk's slot, or the empty slot for the chunk. NULL if there are no slots. */
static pl_share_slot *find_in(const pl_share_slots *in, pl_chunk chunk)
{
    if (in->n == 0) {
        return NULL;
    }
    size_t at = home_slot(in, chunk);
    while (in->at[at].chunk != 0 && in->at[at].chunk != chunk) {
        at = (at + 1) & (in->n - 1);
    }
    return &in->at[at];
}

/* 0: it has none. */
static uint64_t number_in(const pl_share_table *table, pl_chunk chunk)
{
    const pl_share_slot *slot = find_in(&table->now, chunk);

    if (slot == NULL || slot->chunk == 0) {
        slot = find_in(&table->old, chunk);
    }
    return slot != NULL ? slot->number : 0;
}

static void drop_old_locked(pl_device *dev)
{
    pl_lock_assert(&dev->lock);
    pl_meta_free(&dev->meta, dev->shares.old.at);
    dev->shares.old = (pl_share_slots){ .n = 0 };
    dev->shares.n_moved = 0;
}

/* Old slots to move per newly numbered chunk. The larger array has twice as many slots, so all old
 * slots have moved when the larger array is half full. */
enum { MOVES = 2 };

static void move_some_locked(pl_device *dev)
{
    pl_lock_assert(&dev->lock);
    pl_share_table *table = &dev->shares;

    for (size_t n = MOVES; n > 0 && table->n_moved < table->old.n; n--) {
        pl_share_slot moved = table->old.at[table->n_moved++];
        if (moved.number != 0) {
            *find_in(&table->now, moved.chunk) = moved;
        }
        pl_lock_touch(1);
    }
    if (table->old.n > 0 && table->n_moved == table->old.n) {
        drop_old_locked(dev);
    }
}

/* The contents stay in the old slots until move_some_locked moves them. */
static bool grow_locked(pl_device *dev)
{
    pl_lock_assert(&dev->lock);
    pl_share_table *table = &dev->shares;
    pl_share_slots grown = { .n = table->now.n != 0 ? table->now.n * 2 : FIRST_SLOTS };

    pl_assert(table->old.n == 0);
    grown.at = pl_meta_calloc(&dev->meta, grown.n, sizeof(*grown.at));
    if (grown.at == NULL) {
        return false;
    }
    table->old = table->now;
    table->now = grown;
    return true;
}

static uint64_t number_of(pl_device *dev, pl_chunk chunk)
{
    if (pl_count_get(&dev->shares.n) == 0) {
        return 0;
    }
    pl_lock_acquire(&dev->lock);
    uint64_t number = number_in(&dev->shares, chunk);
    pl_lock_release(&dev->lock);
    return number;
}

/* PLEAT_OK, and the chunk has a number; or ENOMEM_HOST. */
static pleat_status note_locked(pl_device *dev, pl_chunk chunk)
{
    pl_lock_assert(&dev->lock);
    pl_share_table *table = &dev->shares;

    if (number_in(table, chunk) != 0) {
        return PLEAT_OK;
    }
    if ((pl_count_get(&table->n) + 1) * 2 > table->now.n && !grow_locked(dev)) {
        return PLEAT_ENOMEM_HOST;
    }
    uint64_t next = atomic_fetch_add(&last_number, 1) + 1;
    *find_in(&table->now, chunk) = (pl_share_slot){ .chunk = chunk, .number = next };
    pl_count_add(&table->n, 1);
    move_some_locked(dev);
    return PLEAT_OK;
}

pleat_status pl_share_note(pl_device *dev, pl_chunk chunk, uint64_t *number)
{
    if (!pl_device_is_exportable(dev)) {
        return PLEAT_ENOTSUP;
    }
    pl_lock_acquire(&dev->lock);
    pleat_status st = note_locked(dev, chunk);
    if (st == PLEAT_OK) {
        *number = number_in(&dev->shares, chunk);
    }
    pl_lock_release(&dev->lock);
    return st;
}

bool pl_share_is_noted(pl_device *dev, pl_chunk chunk)
{
    return number_of(dev, chunk) != 0;
}

/* Empties the slot and closes the gap, so that probes do not stop before a later chunk. */
static void take_out(const pl_share_slots *from, const pl_share_slot *found)
{
    size_t mask = from->n - 1;
    size_t hole = (size_t)(found - from->at);

    from->at[hole] = (pl_share_slot){ .chunk = 0 };
    for (size_t at = (hole + 1) & mask; from->at[at].chunk != 0; at = (at + 1) & mask) {
        size_t home = home_slot(from, from->at[at].chunk);
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            from->at[hole] = from->at[at];
            from->at[at] = (pl_share_slot){ .chunk = 0 };
            hole = at;
        }
    }
}

/* An old slot only loses its number, since a search for another chunk may pass the slot. */
static void forget_locked(pl_device *dev, pl_chunk chunk)
{
    pl_lock_assert(&dev->lock);
    const pl_share_slot *now = find_in(&dev->shares.now, chunk);
    pl_share_slot *old = find_in(&dev->shares.old, chunk);

    if (number_in(&dev->shares, chunk) == 0) {
        return;
    }
    if (now->chunk == chunk) {
        take_out(&dev->shares.now, now);
    }
    if (old != NULL) {
        old->number = 0;
    }
    pl_count_sub(&dev->shares.n, 1);
}

void pl_share_forget(pl_device *dev, pl_chunk chunk)
{
    if (pl_count_get(&dev->shares.n) == 0) {
        return;
    }
    pl_lock_acquire(&dev->lock);
    forget_locked(dev, chunk);
    pl_lock_release(&dev->lock);
}

void pl_shares_fini(pl_device *dev)
{
    pl_meta_free(&dev->meta, dev->shares.now.at);
    pl_meta_free(&dev->meta, dev->shares.old.at);
    dev->shares.now = (pl_share_slots){ .n = 0 };
    dev->shares.old = (pl_share_slots){ .n = 0 };
    dev->shares.n_moved = 0;
}

/* ---- to others ------------------------------------------------------------------------------- */

static bool is_as_noted(pl_device *dev, const pl_shared_chunk *shared)
{
    return shared->number != 0 && number_of(dev, shared->chunk) == shared->number;
}

static void close_fd(int *fd)
{
    int gone = *fd;
    *fd = -1; /* first: another thread may open the same number */
    close(gone);
}

pleat_status pl_share_export(pl_device *dev, const pl_shared_chunk *shared, int *fd)
{
    if (!is_as_noted(dev, shared)) {
        return PLEAT_ESHARE;
    }
    *fd = -1;
    int mode = pl_scope_relax(dev);
    cu_result result = pl_cu_mem_export(dev->drv, fd, shared->chunk, CU_HANDLE_POSIX_FD, 0);
    pl_scope_restore_mode(dev, mode);
    if (!is_as_noted(dev, shared)) { /* then the handle may have been another chunk's by now */
        if (result == CU_SUCCESS) {
            close_fd(fd);
        }
        pl_driver_clear_error();
        return PLEAT_ESHARE;
    }
    if (result != CU_SUCCESS) {
        return pl_driver_failure(result);
    }
    (void)fcntl(*fd, F_SETFD, FD_CLOEXEC); /* drivers do not say whether they do */
    return PLEAT_OK;
}

/* ---- from others ----------------------------------------------------------------------------- */

/* The mapping keeps the memory, so the handle goes back at once. */
static pleat_status map_one(pl_device *dev, pleat_devptr at, uint64_t bytes, int fd)
{
    cu_mem_handle handle = 0;
    cu_result result = pl_cu_mem_import(dev->drv, &handle, (void *)(intptr_t)fd,
                                        CU_HANDLE_POSIX_FD);
    if (result != CU_SUCCESS) {
        return pl_driver_failure(result);
    }
    result = pl_cu_mem_map(dev->drv, at, bytes, 0, handle, 0);
    pleat_status st = pl_driver_status(result);
    if (pl_cu_mem_release(dev->drv, handle) != CU_SUCCESS) {
        pl_left_undo(dev, PL_LEFT_HANDLE, handle, 0);
    }
    return st;
}

static pleat_status map_all(pl_device *dev, pl_range range, const pl_shared_chunk *chunks, size_t n,
                            pl_fd_source source, uint64_t *mapped_bytes)
{
    *mapped_bytes = 0;
    for (size_t i = 0; i < n; i++) {
        int fd = -1;
        pleat_status st = source.fd_of(source.context, i, &fd);
        if (st == PLEAT_OK) {
            st = map_one(dev, range.base + *mapped_bytes, chunks[i].bytes, fd);
        }
        if (st != PLEAT_OK) {
            return st;
        }
        *mapped_bytes += chunks[i].bytes;
    }
    return pl_driver_status(
        pl_cu_mem_set_access(dev->drv, range.base, range.bytes, dev->access, dev->n_access));
}

pleat_status pl_share_map(pl_device *dev, const pl_shared_chunk *chunks, size_t n,
                          pl_fd_source source, pl_range *out)
{
    uint64_t bytes = 0;
    uint64_t mapped_bytes = 0;
    pl_range range;
    for (size_t i = 0; i < n; i++) {
        if (chunks[i].bytes == 0 || chunks[i].bytes % dev->granule_bytes != 0 ||
            __builtin_add_overflow(bytes, chunks[i].bytes, &bytes)) {
            return PLEAT_ESIZE;
        }
    }
    pl_left_retry(dev);
    pleat_status st = pl_range_reserve(dev, bytes, bytes, &range);
    if (st != PLEAT_OK) {
        return st;
    }
    int mode = pl_scope_relax(dev);
    st = map_all(dev, range, chunks, n, source, &mapped_bytes);
    pl_scope_restore_mode(dev, mode);
    if (st == PLEAT_OK) {
        pl_mapping_tell(dev->watch, dev->ordinal, true, range.base, bytes);
        *out = range;
        return PLEAT_OK;
    }
    if (mapped_bytes > 0) {
        pl_left_undo(dev, PL_LEFT_MAPPING, range.base, mapped_bytes);
    }
    pl_left_undo(dev, PL_LEFT_RANGE, range.base, range.bytes);
    return st;
}

void pl_share_unmap(pl_device *dev, pl_range range)
{
    pl_mapping_tell(dev->watch, dev->ordinal, false, range.base, range.bytes);
    pl_left_undo(dev, PL_LEFT_MAPPING, range.base, range.bytes);
    pl_left_undo(dev, PL_LEFT_RANGE, range.base, range.bytes);
}

/* ---- which device ---------------------------------------------------------------------------- */

pleat_status pl_driver_bus_place(pl_driver *drv, int ordinal, pl_bus_place *out)
{
    cu_device gpu = 0;
    pl_bus_place place;
    if (pl_cu_device_get(drv, &gpu, ordinal) != CU_SUCCESS ||
        pl_cu_device_attribute(drv, &place.domain, CU_ATTR_PCI_DOMAIN_ID, gpu) != CU_SUCCESS ||
        pl_cu_device_attribute(drv, &place.bus, CU_ATTR_PCI_BUS_ID, gpu) != CU_SUCCESS ||
        pl_cu_device_attribute(drv, &place.slot, CU_ATTR_PCI_DEVICE_ID, gpu) != CU_SUCCESS) {
        return PLEAT_EDRIVER;
    }
    *out = place;
    return PLEAT_OK;
}
