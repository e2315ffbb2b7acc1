/* probe.c - tries once whether virtual memory management works; no guess from a version. A try that
 * finds no room is made again before the first chunk.
 *
 * A failed step is named in the message. The probe leaves nothing behind and does not show in the
 * device's counters, except that a failed undo step is counted. */
#include <stdio.h>

#include "vmm/device_state.h"
#include "vmm/left.h"
#include "vmm/range.h"

typedef struct probe {
    pl_device *dev;
    char *why;
    size_t why_bytes;
} probe;

/* A driver that cannot have memory of the node answers that there is none left (NCCL's issue
 * 2190). */
static bool is_host_free(const pl_device *dev)
{
    return dev->is_host && pl_machine_free_bytes() >> 6 > dev->granule_bytes;
}

/* Words the reason why the last call failed. */
static pleat_status explain(const probe *p, cu_result result)
{
    const pl_driver_error *error = pl_driver_last_error();
    bool is_missing = result == CU_NOT_FOUND && error->detail[0] != '\0';
    bool is_refused = result == CU_NOT_SUPPORTED || result == CU_NOT_PERMITTED ||
                      result == CU_NOT_FOUND || result == CU_UNKNOWN ||
                      (p->dev->is_host && result == CU_INVALID_VALUE);
    if (is_missing) {
        snprintf(p->why, p->why_bytes, "%s", error->detail);
    } else {
        snprintf(p->why, p->why_bytes, "%s answers %s", pl_entry_symbol(error->entry), error->text);
    }
    if (result == CU_OUT_OF_MEMORY && error->entry == PL_CU_address_reserve) {
        return PLEAT_ENOSPACE_VA;
    }
    if (result == CU_OUT_OF_MEMORY) { /* tells nothing about what works */
        return is_host_free(p->dev) ? PLEAT_ENOVMM : PLEAT_ENOMEM_DEVICE;
    }
    return is_refused ? PLEAT_ENOVMM : PLEAT_EDRIVER;
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
        pl_left_undo(dev, PL_LEFT_MAPPING, at, bytes);
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
    pl_left_undo(dev, PL_LEFT_HANDLE, handle, 0);
undo_reserve:
    pl_range_count(dev, bytes);
    pl_left_undo(dev, PL_LEFT_RANGE, at, bytes);
    return st;
}

/* A failure that is not a lack of memory or addresses may pass with less capable chunks. */
static bool may_retry(pleat_status st)
{
    return st == PLEAT_ENOVMM || st == PLEAT_EDRIVER;
}

static void set_abilities(pl_device *dev, bool has_rdma, int handle_types)
{
    dev->prop.flags.rdma_capable = has_rdma;
    dev->prop.handle_types = handle_types;
}

static pleat_status try_with(const probe *p, bool has_rdma, int handle_types)
{
    pl_device *dev = p->dev;
    set_abilities(dev, has_rdma, handle_types);
    pleat_status st = pl_device_ask_granule(dev);
    return st == PLEAT_OK ? try_all(p) : st;
}

/* Try without GPUDirect RDMA (WSL2 advertises RDMA, but refuses when access is set), then without
 * exportable handles, then without both, where the options leave the choice open. `why` names the
 * missing ability. */
static pleat_status try_less(const probe *p, pleat_status st)
{
    static const char *const names[] = { "GPUDirect RDMA", "exportable memory",
                                         "GPUDirect RDMA and exportable memory" };
    const pl_device *dev = p->dev;
    bool has_rdma = dev->prop.flags.rdma_capable != 0;
    int handle_types = dev->prop.handle_types;
    unsigned may_lack = (dev->may_lack_rdma ? 1U : 0U) | (dev->may_lack_fd ? 2U : 0U);
    unsigned lack = 0;
    char first[256];
    snprintf(first, sizeof(first), "%s", p->why);
    for (unsigned less = 1; less <= 3 && may_retry(st); less++) {
        if ((less & ~may_lack) == 0) {
            lack = less;
            st = try_with(p, has_rdma && (less & 1) == 0,
                          (less & 2) == 0 ? handle_types : CU_HANDLE_NONE);
        }
    }
    if (st == PLEAT_OK && lack != 0) {
        pl_driver_clear_error();
        snprintf(p->why, p->why_bytes, "without %s: %s", names[lack - 1], first);
    }
    if (st != PLEAT_OK && lack != 0) { /* no reason to do without */
        set_abilities(p->dev, has_rdma, handle_types);
        pleat_status asked = pl_device_ask_granule(p->dev);
        st = asked == PLEAT_OK ? st : asked;
    }
    return st;
}

pleat_status pl_device_probe(pl_device *dev, char *why, size_t n)
{
    probe p = { .dev = dev, .why = why, .why_bytes = n };
    if (n > 0) {
        why[0] = '\0';
    }
    if (dev->is_host_unsafe) {
        snprintf(why, n,
                 "drivers before CUDA 13.2 can crash when they map host memory "
                 "(host_node:%d tries)",
                 dev->prop.location.id);
        return PLEAT_ENOVMM;
    }
    if (dev->is_host && pl_driver_kind_of(dev->drv) != PL_DRIVER_SIM &&
        !pl_machine_has_node((unsigned)dev->prop.location.id)) {
        snprintf(why, n, "node %d of the host has no memory or no CPU", dev->prop.location.id);
        return PLEAT_ENOVMM;
    }
    int mode = pl_scope_relax(dev);
    pleat_status st = try_less(&p, try_all(&p));
    pl_scope_restore_mode(dev, mode);
    bool is_open = st == PLEAT_ENOMEM_DEVICE || st == PLEAT_ENOSPACE_VA;
    atomic_store_explicit(&dev->is_unproven, is_open && dev->has_vmm, memory_order_release);
    if ((st == PLEAT_OK || is_open) && !dev->has_vmm) {
        snprintf(why, n, "the device says that it has no virtual memory management");
        return PLEAT_ENOVMM;
    }
    return st;
}

/* Whoever uses the device knows its granule by now, and no chunk exists yet. */
static pleat_status prove(pl_device *dev)
{
    char why[256];
    const char *reason = why;
    size_t granule_bytes = dev->granule_bytes;
    pleat_status st = pl_device_probe(dev, why, sizeof(why));
    if (st == PLEAT_OK && dev->granule_bytes != granule_bytes) {
        dev->granule_bytes = granule_bytes;
        reason = "chunks would have another size than when the device was opened";
        st = PLEAT_ENOVMM;
    }
    if (st == PLEAT_ENOVMM) {
        pl_driver_set_detail("virtual memory management, which could not be tried while the device "
                             "was full, does not work: %s",
                             reason);
    }
    atomic_store_explicit(&dev->is_unproven, st != PLEAT_OK, memory_order_release);
    return st;
}

pleat_status pl_device_prove(pl_device *dev)
{
    pl_lock_acquire(&dev->lock);
    while (dev->is_proving) {
        pl_lock_wait(&dev->lock, &dev->proved);
    }
    bool is_due = atomic_load(&dev->is_unproven);
    dev->is_proving = is_due;
    pl_lock_release(&dev->lock);
    if (!is_due) {
        return PLEAT_OK;
    }
    pleat_status st = prove(dev);
    pl_lock_acquire(&dev->lock);
    dev->is_proving = false;
    pl_cond_broadcast(&dev->proved);
    pl_lock_release(&dev->lock);
    return st;
}
