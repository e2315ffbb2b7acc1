/* share.c - see share.h: the table of shared chunks, and mappings of foreign ones.
 *
 * The table is guarded by the device's lock (rank 40), which is never held across a driver call. So
 * a chunk may be released while it is exported: its number, forgotten before the release, tells
 * afterwards, and what was exported then is closed again. */
#include "vmm/share.h"

#include <fcntl.h>
#include <unistd.h>

#include "vmm/device_state.h"

enum { FIRST_SLOTS = 64 };

static _Atomic uint64_t last_number;

/* ---- the table ------------------------------------------------------------------------------- */

static size_t home_slot(const pl_share_table *table, pl_chunk chunk)
{
    return (size_t)(chunk * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (table->n_slots - 1);
}

/* The chunk's slot, or the empty one where it would be. */
static pl_share_slot *find_slot(const pl_share_table *table, pl_chunk chunk)
{
    size_t at = home_slot(table, chunk);
    while (table->slots[at].chunk != 0 && table->slots[at].chunk != chunk) {
        at = (at + 1) & (table->n_slots - 1);
    }
    return &table->slots[at];
}

static bool grow_locked(pl_device *dev)
{
    pl_lock_assert(&dev->lock);
    pl_share_table *old = &dev->shares;
    pl_share_table grown = { .n_slots = old->n_slots != 0 ? old->n_slots * 2 : FIRST_SLOTS };
    grown.slots = pl_host_calloc(&dev->host, grown.n_slots, sizeof(*grown.slots));
    if (grown.slots == NULL) {
        return false;
    }
    for (size_t i = 0; i < old->n_slots; i++) {
        if (old->slots[i].chunk != 0) {
            *find_slot(&grown, old->slots[i].chunk) = old->slots[i];
        }
    }
    pl_host_free(&dev->host, old->slots);
    old->slots = grown.slots;
    old->n_slots = grown.n_slots;
    return true;
}

static uint64_t number_of(pl_device *dev, pl_chunk chunk)
{
    uint64_t number = 0;
    if (pl_count_get(&dev->shares.n) == 0) {
        return 0;
    }
    pl_lock_acquire(&dev->lock);
    if (dev->shares.n_slots != 0) {
        number = find_slot(&dev->shares, chunk)->number;
    }
    pl_lock_release(&dev->lock);
    return number;
}

pleat_status pl_share_note(pl_device *dev, pl_chunk chunk, uint64_t *number)
{
    pl_share_table *table = &dev->shares;
    if (!pl_device_is_exportable(dev)) {
        return PLEAT_ENOTSUP;
    }
    pl_lock_acquire(&dev->lock);
    bool has_room = (pl_count_get(&table->n) + 1) * 2 <= table->n_slots || grow_locked(dev);
    if (has_room) {
        pl_share_slot *slot = find_slot(table, chunk);
        if (slot->chunk == 0) {
            uint64_t next = atomic_fetch_add(&last_number, 1) + 1;
            *slot = (pl_share_slot){ .chunk = chunk, .number = next };
            pl_count_add(&table->n, 1);
        }
        *number = slot->number;
    }
    pl_lock_release(&dev->lock);
    return has_room ? PLEAT_OK : PLEAT_ENOMEM_HOST;
}

bool pl_share_is_noted(pl_device *dev, pl_chunk chunk)
{
    return number_of(dev, chunk) != 0;
}

/* Empties the slot and closes the gap, so that no probe stops before a later chunk. */
static void take_out_locked(pl_device *dev, pl_share_slot *found)
{
    pl_lock_assert(&dev->lock);
    pl_share_table *table = &dev->shares;
    size_t mask = table->n_slots - 1;
    size_t hole = (size_t)(found - table->slots);
    table->slots[hole] = (pl_share_slot){ .chunk = 0 };
    for (size_t at = (hole + 1) & mask; table->slots[at].chunk != 0; at = (at + 1) & mask) {
        size_t home = home_slot(table, table->slots[at].chunk);
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            table->slots[hole] = table->slots[at];
            table->slots[at] = (pl_share_slot){ .chunk = 0 };
            hole = at;
        }
    }
    pl_count_sub(&table->n, 1);
}

void pl_share_forget(pl_device *dev, pl_chunk chunk)
{
    if (pl_count_get(&dev->shares.n) == 0) {
        return;
    }
    pl_lock_acquire(&dev->lock);
    pl_share_slot *found = dev->shares.n_slots != 0 ? find_slot(&dev->shares, chunk) : NULL;
    if (found != NULL && found->chunk == chunk && chunk != 0) {
        take_out_locked(dev, found);
    }
    pl_lock_release(&dev->lock);
}

void pl_shares_fini(pl_device *dev)
{
    pl_host_free(&dev->host, dev->shares.slots);
    dev->shares.slots = NULL;
    dev->shares.n_slots = 0;
}

/* ---- to others ------------------------------------------------------------------------------- */

static bool is_as_noted(pl_device *dev, const pl_shared_chunk *shared)
{
    return shared->number != 0 && number_of(dev, shared->chunk) == shared->number;
}

static void close_fd(int *fd)
{
    int gone = *fd;
    *fd = -1; /* first: nobody may close what another thread opens under that number */
    close(gone);
}

pleat_status pl_share_export(pl_device *dev, const pl_shared_chunk *shared, int *fd)
{
    if (!is_as_noted(dev, shared)) {
        return PLEAT_ESHARE;
    }
    *fd = -1;
    cu_result result = pl_cu_mem_export(dev->drv, fd, shared->chunk, CU_HANDLE_POSIX_FD, 0);
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
    if (pl_cu_mem_release(dev->drv, handle) != CU_SUCCESS &&
        pl_cu_mem_release(dev->drv, handle) != CU_SUCCESS) {
        pl_device_lose(dev);
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

static pleat_status unmap(pl_device *dev, pleat_devptr at, uint64_t bytes)
{
    cu_result result = pl_cu_mem_unmap(dev->drv, at, bytes);
    return pl_driver_failure(result == CU_SUCCESS ? result : pl_cu_mem_unmap(dev->drv, at, bytes));
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
    pleat_status st = pl_range_reserve(dev, bytes, bytes, &range);
    if (st != PLEAT_OK) {
        return st;
    }
    st = map_all(dev, range, chunks, n, source, &mapped_bytes);
    if (st == PLEAT_OK) {
        pl_count_add(&dev->n.n_mapped_bytes, bytes);
        pl_mapping_tell(dev->watch, dev->ordinal, true, range.base, bytes);
        *out = range;
        return PLEAT_OK;
    }
    pleat_status undone = mapped_bytes > 0 ? unmap(dev, range.base, mapped_bytes) : PLEAT_OK;
    undone = undone == PLEAT_OK ? pl_range_release(dev, range) : undone;
    pl_device_undo(dev, undone);
    return st;
}

pleat_status pl_share_unmap(pl_device *dev, pl_range range)
{
    pl_mapping_tell(dev->watch, dev->ordinal, false, range.base, range.bytes);
    pleat_status st = unmap(dev, range.base, range.bytes);
    if (st == PLEAT_OK) {
        pl_count_sub(&dev->n.n_mapped_bytes, range.bytes);
        pl_device_undo(dev, pl_range_release(dev, range));
    }
    return st;
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
