/* mapping.c - maps and unmaps runs of chunks, all or nothing.
 *
 * The driver's calls are not atomic over a run: a later map or the set-access can fail after the
 * first maps succeeded. The mapped part is then unmapped with one call, or chunk by chunk if the
 * driver refuses. Keeps no state except the device's counters. */
#include "vmm/mapping.h"

#include "vmm/device_state.h"
#include "vmm/left.h"

/* log2s NULL: all chunks have one unit. */
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

typedef enum whereabouts {
    MAPPED,
    GONE,
    UNTOLD, /* cuMemRetainAllocationHandle is missing, before CUDA 11.0 */
    UNKNOWN /* the driver does not answer */
} whereabouts;

enum { ASK_TRIES = 2 }; /* "not mapped" may be another refusal's code */

static whereabouts ask_where(pl_device *dev, pleat_devptr at)
{
    cu_mem_handle handle = 0;
    cu_result result = CU_INVALID_VALUE;
    for (unsigned tries = 0; tries < ASK_TRIES && result == CU_INVALID_VALUE; tries++) {
        result = pl_cu_mem_retain_handle(dev->drv, &handle, (void *)(uintptr_t)at);
    }
    if (result == CU_NOT_FOUND) {
        return UNTOLD;
    }
    if (result != CU_SUCCESS) {
        return result == CU_INVALID_VALUE ? GONE : UNKNOWN;
    }
    if (pl_cu_mem_release(dev->drv, handle) != CU_SUCCESS) {
        pl_left_undo(dev, PL_LEFT_HANDLE, handle, 0); /* else it would keep the memory */
    }
    return MAPPED;
}

/* Bytes of the mapping at `at`, at most `most`. */
static size_t mapping_bytes(pl_device *dev, pleat_devptr at, size_t most)
{
    cu_devptr base = 0;
    size_t bytes = 0;
    bool is_told = pl_driver_has(dev->drv, PL_CU_mem_address_range) &&
                   pl_cu_mem_address_range(dev->drv, &base, &bytes, at) == CU_SUCCESS &&
                   base == at && bytes > 0 && bytes % dev->granule_bytes == 0 && bytes <= most;
    return is_told ? bytes : dev->granule_bytes;
}

/* Of a run, in bytes. The rest of the run is mapped. */
typedef struct unmapped {
    size_t gone;
    size_t unknown;
} unmapped;

static bool unmap_one(pl_device *dev, pleat_devptr at, size_t bytes, bool is_told)
{
    cu_result result = pl_cu_mem_unmap(dev->drv, at, bytes);
    return result == CU_SUCCESS || (result == CU_INVALID_VALUE && !is_told);
}

static unmapped unmap_each_inside(pl_device *dev, pleat_devptr at, size_t bytes)
{
    unmapped u = { .gone = 0 };
    size_t n;
    for (size_t done = 0; done < bytes; done += n) {
        whereabouts where = ask_where(dev, at + done);
        bool is_gone = where == GONE;
        n = dev->granule_bytes;
        if (where == MAPPED || where == UNTOLD) {
            n = mapping_bytes(dev, at + done, bytes - done);
            is_gone = unmap_one(dev, at + done, n, where == MAPPED);
        }
        u.gone += is_gone ? n : 0;
        u.unknown += where == UNKNOWN ? n : 0;
    }
    return u;
}

/* A driver tells where a mapping ends only while a context is current. */
static unmapped unmap_each(pl_device *dev, pleat_devptr at, size_t bytes)
{
    pl_scope scope;
    bool is_inside = pl_scope_begin(dev, &scope) == PLEAT_OK;
    unmapped u = unmap_each_inside(dev, at, bytes);
    if (is_inside) {
        pl_scope_end(dev, &scope);
    }
    return u;
}

static size_t count_gone(pl_device *dev, pleat_devptr at, size_t bytes)
{
    size_t gone = 0;
    for (size_t done = 0; done < bytes; done += dev->granule_bytes) {
        gone += ask_where(dev, at + done) == GONE ? dev->granule_bytes : 0;
    }
    return gone;
}

/* Whether a call that failed has unmapped some of the run is not documented. So each remaining
 * mapping is unmapped by itself. Not after INVALID_VALUE, when the run is no run. PLEAT_OK; EDRIVER
 * (all is mapped); EPOISONED (a part may be). */
static pleat_status unmap(pl_device *dev, pleat_devptr at, size_t bytes)
{
    unmapped u = { .gone = 0 };
    cu_result result = pl_cu_mem_unmap(dev->drv, at, bytes);
    if (result != CU_SUCCESS && result != CU_INVALID_VALUE) {
        u = unmap_each(dev, at, bytes);
    } else if (result == CU_SUCCESS || pl_cu_mem_unmap(dev->drv, at, bytes) == CU_SUCCESS) {
        u.gone = bytes;
    } else {
        u.unknown = count_gone(dev, at, bytes); /* by whichever call */
    }
    if (u.gone == bytes) {
        return PLEAT_OK;
    }
    return u.gone + u.unknown == 0 ? pl_driver_failure(result) : PLEAT_EPOISONED;
}

pleat_status pl_mapping_clear(pl_device *dev, pleat_devptr at, size_t bytes)
{
    pl_mapping_tell(dev->watch, dev->ordinal, false, at, bytes);
    int mode = pl_scope_relax(dev);
    unmapped u = unmap_each(dev, at, bytes);
    pl_scope_restore_mode(dev, mode);
    return u.gone == bytes ? PLEAT_OK : PLEAT_EPOISONED;
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
    pl_mapping_tell(dev->watch, dev->ordinal, true, at, run_bytes);
    return PLEAT_OK;

undo_map:;
    /* Read before the undo, whose failure would replace the error. */
    pleat_status st = pl_driver_status(result);
    if (n_mapped > 0 && unmap_relaxed(dev, at, run_bytes) != PLEAT_OK) {
        pl_count_add(&dev->n.n_undo_failures, 1);
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
    pl_count_add(&dev->n.ops_unmap, st == PLEAT_OK ? 1 : 0);
    return st;
}
