/* handle.c - physical memory: capacity to the byte, reference counts, sharing.
 *
 * Upholds M1 and M2 (memory.h). A value carries the reset, the use and the index, so a released
 * value is recognised. An exported file descriptor is one of the memory's token (token.h). An
 * import finds the live handle of the token within this process and adds a reference to the same
 * value. In another process, or after the memory's release, an import makes a handle of foreign
 * memory. A descriptor keeps the contents. The simulator cannot see its close, so the memory is
 * charged to nobody. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "vmm/tools/sim/cost.h"
#include "vmm/tools/sim/memory/backing.h"
#include "vmm/tools/sim/memory/memory.h"
#include "vmm/tools/sim/work/token.h"

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

/* The host has one node. Drivers export the host's memory too. The simulator keeps it in the
 * process. */
static cu_result check_host_prop(const cu_mem_prop *prop)
{
    if (sim.conf.profile == SIM_PROFILE_OLD_DRIVER || prop->location.id != 0) {
        return CU_INVALID_VALUE;
    }
    if (!sim.conf.has_memory) {
        return CU_NOT_SUPPORTED; /* made-up addresses are of no use to the host */
    }
    bool is_plain = prop->handle_types == CU_HANDLE_NONE && !prop->flags.rdma_capable;
    return is_plain ? CU_SUCCESS : CU_NOT_SUPPORTED;
}

cu_result sim_handle_check_prop(const cu_mem_prop *prop)
{
    static const unsigned char zeros[sizeof(prop->flags.reserved)];
    if (prop == NULL || prop->type != CU_ALLOCATION_PINNED || prop->win32_metadata != NULL ||
        (prop->location.type != CU_LOCATION_DEVICE &&
         prop->location.type != CU_LOCATION_HOST_NUMA) ||
        prop->flags.usage != 0 || memcmp(prop->flags.reserved, zeros, sizeof(zeros)) != 0) {
        return CU_INVALID_VALUE;
    }
    if (prop->location.type == CU_LOCATION_HOST_NUMA) {
        return check_host_prop(prop);
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

static sim_handle *take(int ordinal, uint64_t bytes, bool is_linear, bool is_host)
{
    sim_device *device = &sim.devices[ordinal];
    uint64_t offset = 0;
    uint64_t granule_bytes = sim.conf.granule_bytes;
    uint64_t free_bytes = is_host ? sim.conf.host_bytes - sim.host_bytes
                                  : sim.conf.capacity_bytes - device->physical_bytes;
    if (bytes > free_bytes) {
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
        .is_host = is_host,
        .device = ordinal,
        .bytes = bytes,
        .refs = 1,
        .offset = offset,
        .token_fd = -1,
    };
    *(is_host ? &sim.host_bytes : &device->physical_bytes) += bytes;
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

sim_handle *sim_handle_take(int ordinal, uint64_t bytes, bool is_linear)
{
    return take(ordinal, bytes, is_linear, false);
}

sim_handle *sim_handle_take_host(uint64_t bytes, bool is_linear)
{
    return take(0, bytes, is_linear, true);
}

sim_handle *sim_handle_take_foreign(int ordinal, uint64_t bytes, bool is_linear)
{
    uint32_t index;
    sim_handle *handle = sim_pool_take(&sim.handles, &index);
    *handle = (sim_handle){
        .index = index,
        .generation = handle->generation + 1,
        .is_live = true,
        .is_linear = is_linear,
        .is_foreign = true,
        .device = ordinal,
        .bytes = bytes,
        .refs = 1,
        .token_fd = -1,
    };
    sim.devices[ordinal].imported_bytes += bytes;
    if (is_linear) {
        sim.devices[ordinal].n_linear++;
    } else {
        sim.devices[ordinal].n_handles++;
    }
    return handle;
}

void sim_handle_settle(sim_handle *handle)
{
    if (handle->refs > 0 || handle->n_mappings > 0) {
        return;
    }
    sim_device *device = &sim.devices[handle->device];
    uint64_t granule_bytes = sim.conf.granule_bytes;
    if (sim.conf.has_memory && handle->token_fd < 0) {
        sim_backing_give(device, handle->offset,
                         (handle->bytes + granule_bytes - 1) & ~(granule_bytes - 1));
    }
    sim_token_drop(handle);
    if (handle->is_foreign) {
        device->imported_bytes -= handle->bytes;
    } else if (handle->is_host) {
        sim.host_bytes -= handle->bytes;
    } else {
        device->physical_bytes -= handle->bytes;
    }
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
    bool is_host = prop->location.type == CU_LOCATION_HOST_NUMA;
    if (is_host && sim.conf.is_host_crashing) {
        fprintf(stderr, "pleat_sim: cuMemCreate of host memory (unkind:host_numa_crash)\n");
        (void)raise(SIGSEGV);
    }
    if (is_host && sim.conf.is_host_refused) {
        return CU_OUT_OF_MEMORY;
    }
    int keeper = is_host ? 0 : prop->location.id;
    uint64_t n_live = sim.devices[keeper].n_handles;
    sim_handle *handle = take(keeper, bytes, false, is_host);
    if (handle == NULL) {
        return CU_OUT_OF_MEMORY;
    }
    handle->prop = *prop;
    handle->prop.flags.compression_type = 0; /* only a hint: the simulated device does not
                                              * compress */
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
    cu_result result = sim_token_make(handle);
    int copy = result == CU_SUCCESS ? fcntl(handle->token_fd, F_DUPFD, 0) : -1;
    if (copy < 0) {
        return CU_OPERATING_SYSTEM;
    }
    *fd = copy;
    return CU_SUCCESS;
}

cu_result sim_handle_import(cu_mem_handle *value, int fd, int handle_type)
{
    sim_handle *handle = NULL;
    if (value == NULL || handle_type != CU_HANDLE_POSIX_FD) {
        return CU_INVALID_VALUE;
    }
    cu_result result = sim_token_find(fd, &handle);
    if (result != CU_SUCCESS) {
        return result;
    }
    if (handle == NULL) {
        result = sim_token_adopt(fd, &handle);
    } else {
        handle->refs++;
    }
    if (result != CU_SUCCESS) {
        return result;
    }
    if (handle->is_linear) { /* cuMemAlloc's, which only cuIpcOpenMemHandle opens */
        handle->refs--;
        sim_handle_settle(handle);
        return CU_INVALID_VALUE;
    }
    *value = sim_handle_value(handle);
    return CU_SUCCESS;
}
