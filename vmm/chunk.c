/* chunk.c - physical memory, one handle a chunk. Keeps no state except the device's counters. */
#include "vmm/chunk.h"

#include "vmm/device_state.h"
#include "vmm/left.h"
#include "vmm/share.h"

pleat_status pl_chunk_create_sized(pl_device *dev, size_t bytes, pl_chunk *out)
{
    if (bytes == 0 || bytes % dev->granule_bytes != 0) {
        return PLEAT_EINVAL;
    }
    if (atomic_load_explicit(&dev->is_unproven, memory_order_acquire)) {
        pleat_status st = pl_device_prove(dev);
        if (st != PLEAT_OK) {
            return st;
        }
    }
    cu_mem_handle handle = 0;
    int mode = pl_scope_relax(dev);
    cu_result result = pl_cu_mem_create(dev->drv, &handle, bytes, &dev->prop, 0);
    pl_scope_restore_mode(dev, mode);
    if (result != CU_SUCCESS) {
        return pl_driver_status(result);
    }
    pl_count_add(&dev->n.n_chunks, 1);
    pl_count_add(&dev->n.chunk_bytes, bytes);
    pl_count_add(&dev->n.bytes_created, bytes);
    *out = handle;
    return PLEAT_OK;
}

pleat_status pl_chunk_create(pl_device *dev, pl_chunk *out)
{
    return pl_chunk_create_sized(dev, dev->chunk_bytes, out);
}

pleat_status pl_chunk_release_sized(pl_device *dev, pl_chunk chunk, size_t bytes)
{
    pl_share_forget(dev, chunk);
    pl_left_retry(dev);
    int mode = pl_scope_relax(dev);
    cu_result result = pl_cu_mem_release(dev->drv, chunk);
    if (result != CU_SUCCESS) {
        result = pl_cu_mem_release(dev->drv, chunk);
    }
    pl_scope_restore_mode(dev, mode);
    if (result != CU_SUCCESS) {
        pl_count_add(&dev->n.n_undo_failures, 1);
        return pl_driver_failure(result);
    }
    pl_count_sub(&dev->n.n_chunks, 1);
    pl_count_sub(&dev->n.chunk_bytes, bytes);
    return PLEAT_OK;
}

pleat_status pl_chunk_release(pl_device *dev, pl_chunk chunk)
{
    return pl_chunk_release_sized(dev, chunk, dev->chunk_bytes);
}
