/* mapping.c - maps and unmaps runs of chunks, all or nothing.
 *
 * The driver's calls are not atomic over a run: a later map or the set-access can fail after the
 * first maps succeeded. What was mapped is then unmapped with one call. Keeps no state except the
 * device's counters. */
#include "vmm/mapping.h"

#include "vmm/device_state.h"

/* log2s NULL: all of them are of one unit. */
static cu_result map_each(pl_device *dev, pleat_devptr at, const pl_chunk *chunks,
                          const uint8_t *log2s, size_t n, size_t unit, size_t *n_mapped)
{
    size_t n_units;

    for (*n_mapped = 0; *n_mapped < n; *n_mapped += n_units) {
        n_units = log2s == NULL ? 1 : (size_t)1 << log2s[*n_mapped];
        cu_result result = pl_cu_mem_map(dev->drv, at + *n_mapped * unit, n_units * unit, 0,
                                         chunks[*n_mapped], 0);
        if (result != CU_SUCCESS) {
            return result;
        }
    }
    return CU_SUCCESS;
}

/* A refused unmap is tried once more: what stays mapped is lost to everybody. */
static cu_result unmap(pl_device *dev, pleat_devptr at, size_t bytes)
{
    cu_result result = pl_cu_mem_unmap(dev->drv, at, bytes);
    return result == CU_SUCCESS ? result : pl_cu_mem_unmap(dev->drv, at, bytes);
}

static pleat_status map(pl_device *dev, pleat_devptr at, const pl_chunk *chunks,
                        const uint8_t *log2s, size_t n, size_t unit)
{
    if (n == 0) {
        return PLEAT_EINVAL;
    }
    size_t n_mapped;
    cu_result result = map_each(dev, at, chunks, log2s, n, unit, &n_mapped);
    size_t run_bytes = n_mapped * unit;
    if (result == CU_SUCCESS) {
        result = pl_cu_mem_set_access(dev->drv, at, run_bytes, dev->access,
                                      pl_device_n_grants(dev));
    }
    if (result != CU_SUCCESS) {
        goto undo_map;
    }
    pl_count_add(&dev->n.ops_map, 1);
    pl_count_add(&dev->n.bytes_mapped, run_bytes);
    pl_count_add(&dev->n.n_mapped_bytes, run_bytes);
    pl_mapping_tell(dev->watch, dev->ordinal, true, at, run_bytes);
    return PLEAT_OK;

undo_map:;
    /* Read before the undo, whose failure would replace it. */
    pleat_status st = pl_driver_status(result);
    if (n_mapped > 0 && unmap(dev, at, run_bytes) != CU_SUCCESS) {
        pl_count_add(&dev->n.n_undo_failures, 1);
        pl_count_add(&dev->n.n_mapped_bytes, run_bytes);
        return PLEAT_EPOISONED;
    }
    return st;
}

pleat_status pl_mapping_map(pl_device *dev, pleat_devptr at, const pl_chunk *chunks, size_t n)
{
    return map(dev, at, chunks, NULL, n, dev->chunk_bytes);
}

pleat_status pl_mapping_map_sized(pl_device *dev, pleat_devptr at, const pl_chunk *chunks, size_t n,
                                  size_t chunk_bytes)
{
    return map(dev, at, chunks, NULL, n, chunk_bytes);
}

pleat_status pl_mapping_map_mixed(pl_device *dev, pleat_devptr at, const pl_chunk *chunks,
                                  const uint8_t *log2s, size_t n)
{
    return map(dev, at, chunks, log2s, n, dev->chunk_bytes);
}

pleat_status pl_mapping_unmap(pl_device *dev, pleat_devptr at, size_t bytes)
{
    pl_mapping_tell(dev->watch, dev->ordinal, false, at, bytes);
    cu_result result = unmap(dev, at, bytes);
    if (result != CU_SUCCESS) {
        return pl_driver_failure(result);
    }
    pl_count_add(&dev->n.ops_unmap, 1);
    pl_count_sub(&dev->n.n_mapped_bytes, bytes);
    return PLEAT_OK;
}
