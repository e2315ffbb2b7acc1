/* mapping.c - maps and unmaps runs of chunks, all or nothing.
 *
 * The driver's calls are not atomic over a run: a later map or the set-access can fail after the
 * first maps succeeded. What was mapped is then unmapped with one call, or one by one if that is
 * refused. Keeps no state except the device's counters. */
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

/* ---- unmapping ------------------------------------------------------------------------------- */

static bool is_mapped(pl_device *dev, pleat_devptr at)
{
    cu_mem_handle handle = 0;
    cu_result result = pl_cu_mem_retain_handle(dev->drv, &handle, (void *)(uintptr_t)at);
    if (result == CU_SUCCESS && pl_cu_mem_release(dev->drv, handle) != CU_SUCCESS &&
        pl_cu_mem_release(dev->drv, handle) != CU_SUCCESS) {
        pl_device_lose(dev);
    }
    return result != CU_INVALID_VALUE;
}

/* Of the mapping that begins there: at most `most`. */
static size_t mapping_bytes(pl_device *dev, pleat_devptr at, size_t most)
{
    cu_devptr base = 0;
    size_t bytes = 0;
    bool is_told = pl_driver_has(dev->drv, PL_CU_mem_address_range) &&
                   pl_cu_mem_address_range(dev->drv, &base, &bytes, at) == CU_SUCCESS &&
                   base == at && bytes > 0 && bytes % dev->granule_bytes == 0 && bytes <= most;
    return is_told ? bytes : dev->granule_bytes;
}

/* How much of the run is unmapped, after a call that unmaps one mapping after the other. */
static size_t unmap_each(pl_device *dev, pleat_devptr at, size_t bytes)
{
    size_t n_gone = 0;
    size_t n;
    for (size_t done = 0; done < bytes; done += n) {
        n = dev->granule_bytes;
        bool is_gone = !is_mapped(dev, at + done);
        if (!is_gone) {
            n = mapping_bytes(dev, at + done, bytes - done);
            is_gone = pl_cu_mem_unmap(dev->drv, at + done, n) == CU_SUCCESS;
        }
        n_gone += is_gone ? n : 0;
    }
    return n_gone;
}

/* Whether a call that failed has unmapped some of the run is not documented. So each mapping that
 * is left is unmapped by itself; not after INVALID_VALUE: the run is none. PLEAT_OK; EDRIVER: all
 * is mapped; EPOISONED: a part is. */
static pleat_status unmap(pl_device *dev, pleat_devptr at, size_t bytes)
{
    size_t n_gone = 0;
    cu_result result = pl_cu_mem_unmap(dev->drv, at, bytes);
    if (result == CU_SUCCESS) {
        return PLEAT_OK;
    }
    if (result != CU_INVALID_VALUE && pl_driver_has(dev->drv, PL_CU_mem_retain_handle)) {
        n_gone = unmap_each(dev, at, bytes);
    } else if (pl_cu_mem_unmap(dev->drv, at, bytes) == CU_SUCCESS) {
        n_gone = bytes;
    }
    if (n_gone == bytes) {
        return PLEAT_OK;
    }
    return n_gone == 0 ? pl_driver_failure(result) : PLEAT_EPOISONED;
}

static pleat_status unmap_relaxed(pl_device *dev, pleat_devptr at, size_t bytes)
{
    int mode = pl_scope_relax(dev);
    pleat_status st = unmap(dev, at, bytes);
    pl_scope_restore_mode(dev, mode);
    return st;
}

/* ---- mapping --------------------------------------------------------------------------------- */

static cu_result map_and_grant(pl_device *dev, pleat_devptr at, const pl_chunk *chunks,
                               const uint8_t *log2s, size_t n, size_t unit, size_t *n_mapped)
{
    int mode = pl_scope_relax(dev);
    cu_result result = map_each(dev, at, chunks, log2s, n, unit, n_mapped);
    if (result == CU_SUCCESS) {
        result = pl_cu_mem_set_access(dev->drv, at, *n_mapped * unit, dev->access,
                                      pl_device_n_grants(dev));
    }
    pl_scope_restore_mode(dev, mode);
    return result;
}

static pleat_status map(pl_device *dev, pleat_devptr at, const pl_chunk *chunks,
                        const uint8_t *log2s, size_t n, size_t unit)
{
    if (n == 0) {
        return PLEAT_EINVAL;
    }
    size_t n_mapped;
    cu_result result = map_and_grant(dev, at, chunks, log2s, n, unit, &n_mapped);
    size_t run_bytes = n_mapped * unit;
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
    if (n_mapped > 0 && unmap_relaxed(dev, at, run_bytes) != PLEAT_OK) {
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
    pleat_status st = unmap_relaxed(dev, at, bytes);
    if (st != PLEAT_OK) {
        return st;
    }
    pl_count_add(&dev->n.ops_unmap, 1);
    pl_count_sub(&dev->n.n_mapped_bytes, bytes);
    return PLEAT_OK;
}
