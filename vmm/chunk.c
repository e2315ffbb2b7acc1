/* chunk.c - physical memory, one handle a chunk. No state but the device's counters. */
#include "vmm/chunk.h"

#include "vmm/device_state.h"

pleat_status pl_chunk_create(pl_device *dev, pl_chunk *out)
{
    cu_mem_handle handle = 0;
    cu_result result = pl_cu_mem_create(dev->drv, &handle, dev->chunk_bytes, &dev->prop, 0);
    if (result != CU_SUCCESS) {
        return pl_driver_status(result);
    }
    pl_count_add(&dev->n.n_chunks, 1);
    pl_count_add(&dev->n.chunk_bytes, dev->chunk_bytes);
    pl_count_add(&dev->n.bytes_created, dev->chunk_bytes);
    *out = handle;
    return PLEAT_OK;
}

pleat_status pl_chunk_release(pl_device *dev, pl_chunk chunk)
{
    cu_result result = pl_cu_mem_release(dev->drv, chunk);
    if (result != CU_SUCCESS) {
        result = pl_cu_mem_release(dev->drv, chunk);
    }
    if (result != CU_SUCCESS) {
        pl_count_add(&dev->n.n_undo_failures, 1);
        return pl_driver_failure(result);
    }
    pl_count_sub(&dev->n.n_chunks, 1);
    pl_count_sub(&dev->n.chunk_bytes, dev->chunk_bytes);
    return PLEAT_OK;
}
