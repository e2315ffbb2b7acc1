/* probe.c - tries once whether virtual memory management works; no guess from a version.
 *
 * Each step names itself when it fails. The probe leaves nothing behind and does not show in the
 * device's counters, except that a failed undo step is counted. */
#include <stdio.h>

#include "vmm/device_state.h"

typedef struct probe {
    pl_device *dev;
    char *why;
    size_t why_bytes;
} probe;

/* Words the reason why the last call failed. */
static pleat_status explain(const probe *p, cu_result result)
{
    const pl_driver_error *error = pl_driver_last_error();
    bool is_missing = result == CU_NOT_FOUND && error->detail[0] != '\0';
    bool is_refused = result == CU_NOT_SUPPORTED || result == CU_NOT_PERMITTED ||
                      result == CU_NOT_FOUND || (p->dev->is_host && result == CU_INVALID_VALUE);
    if (is_missing) {
        snprintf(p->why, p->why_bytes, "%s", error->detail);
    } else {
        snprintf(p->why, p->why_bytes, "%s answers %s", pl_entry_symbol(error->entry), error->text);
    }
    if (result == CU_OUT_OF_MEMORY) { /* tells nothing about what works */
        return error->entry == PL_CU_address_reserve ? PLEAT_ENOSPACE_VA : PLEAT_ENOMEM_DEVICE;
    }
    return is_refused ? PLEAT_ENOVMM : PLEAT_EDRIVER;
}

static void undo(const probe *p, cu_result result)
{
    pl_device_undo(p->dev, pl_driver_failure(result));
}

/* Map, set access, unmap. */
static cu_result try_mapping(const probe *p, cu_devptr at, size_t bytes, cu_mem_handle handle)
{
    pl_device *dev = p->dev;
    cu_result result = pl_cu_mem_map(dev->drv, at, bytes, 0, handle, 0);
    if (result != CU_SUCCESS) {
        return result;
    }
    result = pl_cu_mem_set_access(dev->drv, at, bytes, dev->access, pl_device_n_grants(dev));
    if (result == CU_SUCCESS) {
        result = pl_cu_mem_unmap(dev->drv, at, bytes);
    }
    if (result != CU_SUCCESS) {
        undo(p, pl_cu_mem_unmap(dev->drv, at, bytes));
    }
    return result;
}

static pleat_status try_all(const probe *p)
{
    pl_device *dev = p->dev;
    size_t bytes = 0;
    cu_devptr at = 0;
    cu_mem_handle handle = 0;
    cu_result result = pl_cu_mem_granularity(dev->drv, &bytes, &dev->prop, CU_GRANULARITY_MINIMUM);
    if (result != CU_SUCCESS) {
        return explain(p, result);
    }
    result = pl_cu_address_reserve(dev->drv, &at, bytes, 0, 0, 0);
    if (result != CU_SUCCESS) {
        return explain(p, result);
    }
    pleat_status st;
    result = pl_cu_mem_create(dev->drv, &handle, bytes, &dev->prop, 0);
    if (result != CU_SUCCESS) {
        st = explain(p, result);
        goto undo_reserve;
    }
    result = try_mapping(p, at, bytes, handle);
    if (result != CU_SUCCESS) {
        st = explain(p, result);
        goto undo_create;
    }
    result = pl_cu_mem_release(dev->drv, handle);
    if (result != CU_SUCCESS) {
        st = explain(p, result);
        goto undo_create;
    }
    result = pl_cu_address_free(dev->drv, at, bytes);
    if (result != CU_SUCCESS) {
        st = explain(p, result);
        goto undo_reserve;
    }
    return PLEAT_OK;

undo_create:
    undo(p, pl_cu_mem_release(dev->drv, handle));
undo_reserve:
    undo(p, pl_cu_address_free(dev->drv, at, bytes));
    return st;
}

pleat_status pl_device_probe(pl_device *dev, char *why, size_t n)
{
    probe p = { .dev = dev, .why = why, .why_bytes = n };
    if (n > 0) {
        why[0] = '\0';
    }
    pleat_status st = try_all(&p);
    if (st == PLEAT_OK && !dev->has_vmm) {
        snprintf(why, n, "the device says that it has no virtual memory management");
        return PLEAT_ENOVMM;
    }
    return st;
}
