/* handle.c - physical memory: capacity to the byte, reference counts, sharing.
 *
 * Upholds M1 and M2 (memory.h). A value carries the reset, the use and the index, so a released
 * value is recognised. An exported file descriptor carries only its identity; within this process
 * an import finds the handle by it, and adds a reference to the same value. A descriptor alone
 * keeps no memory, because the simulator cannot see it closed. */
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vmm/sim/backing.h"
#include "vmm/sim/cost.h"
#include "vmm/sim/memory.h"

cu_mem_handle sim_handle_value(const sim_handle *handle)
{
    return ((sim.epoch & 0xff) << 52) | ((uint64_t)(handle->generation & 0xfffff) << 32) |
           ((uint64_t)handle->index + 1);
}

sim_handle *sim_handle_find(cu_mem_handle value)
{
    uint32_t index = (uint32_t)value - 1;
    if (index >= sim.handles.n_seen) {
        return NULL;
    }
    sim_handle *handle = sim_pool_at(&sim.handles, index);
    if (!handle->is_live || handle->is_linear || handle->refs == 0 ||
        sim_handle_value(handle) != value) {
        return NULL;
    }
    return handle;
}

cu_result sim_handle_check_prop(const cu_mem_prop *prop)
{
    static const unsigned char zeros[sizeof(prop->flags.reserved)];
    if (prop == NULL || prop->type != CU_ALLOCATION_PINNED ||
        prop->location.type != CU_LOCATION_DEVICE || prop->win32_metadata != NULL ||
        prop->flags.usage != 0 || memcmp(prop->flags.reserved, zeros, sizeof(zeros)) != 0) {
        return CU_INVALID_VALUE;
    }
    if (sim_device_at(prop->location.id) == NULL) {
        return CU_INVALID_DEVICE;
    }
    if ((prop->handle_types & ~(CU_HANDLE_POSIX_FD | CU_HANDLE_FABRIC)) != 0) {
        return CU_INVALID_VALUE;
    }
    if ((prop->handle_types & CU_HANDLE_FABRIC) != 0) {
        return CU_NOT_PERMITTED; /* no IMEX channel */
    }
    bool is_old = sim.conf.profile == SIM_PROFILE_OLD_DRIVER;
    if (is_old && ((prop->handle_types & CU_HANDLE_POSIX_FD) != 0 || prop->flags.rdma_capable)) {
        return CU_NOT_SUPPORTED;
    }
    return CU_SUCCESS;
}

sim_handle *sim_handle_take(int ordinal, uint64_t bytes, bool is_linear)
{
    sim_device *device = &sim.devices[ordinal];
    uint64_t offset = 0;
    uint64_t granule_bytes = sim.conf.granule_bytes;
    if (bytes > sim.conf.capacity_bytes - device->physical_bytes) {
        return NULL;
    }
    uint64_t whole_bytes = (bytes + granule_bytes - 1) & ~(granule_bytes - 1);
    if (sim.conf.has_memory && !sim_backing_take(device, whole_bytes, &offset)) {
        return NULL;
    }
    uint32_t index;
    sim_handle *handle = sim_pool_take(&sim.handles, &index);
    *handle = (sim_handle){
        .index = index,
        .generation = handle->generation + 1,
        .is_live = true,
        .is_linear = is_linear,
        .device = ordinal,
        .bytes = bytes,
        .refs = 1,
        .offset = offset,
        .token_fd = -1,
    };
    device->physical_bytes += bytes;
    if (device->peak_physical_bytes < device->physical_bytes) {
        device->peak_physical_bytes = device->physical_bytes;
    }
    if (is_linear) {
        device->n_linear++;
    } else {
        device->n_handles++;
    }
    return handle;
}

void sim_handle_drop_token(sim_handle *handle)
{
    if (handle->is_live && handle->token_fd >= 0) {
        close(handle->token_fd);
        handle->token_fd = -1;
    }
}

void sim_handle_settle(sim_handle *handle)
{
    if (handle->refs > 0 || handle->n_mappings > 0) {
        return;
    }
    sim_device *device = &sim.devices[handle->device];
    uint64_t granule_bytes = sim.conf.granule_bytes;
    if (sim.conf.has_memory) {
        sim_backing_give(device, handle->offset,
                         (handle->bytes + granule_bytes - 1) & ~(granule_bytes - 1));
    }
    sim_handle_drop_token(handle);
    device->physical_bytes -= handle->bytes;
    if (handle->is_linear) {
        device->n_linear--;
    } else {
        device->n_handles--;
    }
    handle->is_live = false;
    sim_pool_give(&sim.handles, handle->index);
}

cu_result sim_handle_create(cu_mem_handle *value, size_t bytes, const cu_mem_prop *prop)
{
    if (value == NULL || bytes == 0 || !sim_is_granular(bytes)) {
        return CU_INVALID_VALUE;
    }
    cu_result result = sim_handle_check_prop(prop);
    if (result != CU_SUCCESS) {
        return result;
    }
    uint64_t n_live = sim.devices[prop->location.id].n_handles;
    sim_handle *handle = sim_handle_take(prop->location.id, bytes, false);
    if (handle == NULL) {
        return CU_OUT_OF_MEMORY;
    }
    handle->prop = *prop;
    handle->prop.flags.compression_type = 0; /* a hint; this device does not compress */
    sim_cost_charge(SIM_CU_mem_create, n_live, 1, bytes);
    *value = sim_handle_value(handle);
    return CU_SUCCESS;
}

cu_result sim_handle_release(cu_mem_handle value)
{
    sim_handle *handle = sim_handle_find(value);
    if (handle == NULL) {
        return CU_INVALID_VALUE;
    }
    sim_cost_charge(SIM_CU_mem_release, sim.devices[handle->device].n_handles, 1, handle->bytes);
    handle->refs--;
    sim_handle_settle(handle);
    return CU_SUCCESS;
}

cu_result sim_handle_export(int *fd, cu_mem_handle value, int handle_type)
{
    sim_handle *handle = sim_handle_find(value);
    if (fd == NULL || handle == NULL || handle_type != CU_HANDLE_POSIX_FD ||
        (handle->prop.handle_types & handle_type) == 0) {
        return CU_INVALID_VALUE;
    }
    if (handle->token_fd < 0) {
        handle->token_fd = memfd_create("pleat-sim-handle", MFD_CLOEXEC);
    }
    int copy = handle->token_fd < 0 ? -1 : dup(handle->token_fd);
    if (copy < 0) {
        return CU_OPERATING_SYSTEM;
    }
    *fd = copy;
    return CU_SUCCESS;
}

static bool is_token_of(const sim_handle *handle, const struct stat *token)
{
    struct stat own;
    return handle->is_live && !handle->is_linear && handle->token_fd >= 0 &&
           fstat(handle->token_fd, &own) == 0 && own.st_dev == token->st_dev &&
           own.st_ino == token->st_ino;
}

cu_result sim_handle_import(cu_mem_handle *value, int fd, int handle_type)
{
    struct stat token;
    if (value == NULL || handle_type != CU_HANDLE_POSIX_FD || fstat(fd, &token) != 0) {
        return CU_INVALID_VALUE;
    }
    for (uint32_t i = 0; i < sim.handles.n_seen; i++) {
        sim_handle *handle = sim_pool_at(&sim.handles, i);
        if (is_token_of(handle, &token)) {
            handle->refs++;
            *value = sim_handle_value(handle);
            return CU_SUCCESS;
        }
    }
    return CU_INVALID_VALUE;
}
