/* sim_mapping.c - map, unmap, set access: strict where real drivers are.
 *
 * Upholds M3 and M4 (memory.h). Everything is checked before anything is changed, so a refused
 * call leaves no trace. Rules: reference/cuda-vmm.md, section 3. A range stays within one
 * reservation. */
#include <stdio.h>

#include "vmm/tools/sim/cost.h"
#include "vmm/tools/sim/memory/backing.h"
#include "vmm/tools/sim/memory/block.h"
#include "vmm/tools/sim/memory/memory.h"
#include "vmm/tools/sim/work/hazard.h"
#include "vmm/tools/sim/work/scope.h"

sim_mapping *sim_mapping_at(uint64_t address)
{
    uint64_t entry = sim_space_entry(&sim.space, address);
    return entry == 0 ? NULL : sim_pool_at(&sim.mappings, (uint32_t)(entry & SIM_GRANULE_INDEX));
}

/* Writes the mapping's state into the table of granules. */
static void publish_mapping(const sim_mapping *mapping)
{
    const sim_handle *handle = mapping->handle;
    unsigned shift = sim.conf.granule_shift;
    uint64_t entry = mapping->index | mapping->rights | SIM_GRANULE_MAPPED;
    if (handle->n_mappings > 1) {
        entry |= SIM_GRANULE_ALIASED;
    }
    if (handle->is_linear) {
        entry |= SIM_GRANULE_LINEAR;
    }
    if (handle->segment != NULL) {
        entry |= SIM_GRANULE_POOLED;
    }
    uint64_t first = mapping->ptr >> shift;
    uint64_t n = (mapping->bytes + sim.conf.granule_bytes - 1) >> shift;
    for (uint64_t i = 0; i < n; i++) {
        bool is_partial = i == n - 1 && !sim_is_granular(mapping->bytes);
        sim_space_set(&sim.space, first + i, entry | (is_partial ? SIM_GRANULE_PARTIAL : 0));
    }
}

static void publish_aliases(const sim_handle *handle)
{
    for (const sim_mapping *it = handle->mappings; it != NULL; it = it->next_alias) {
        publish_mapping(it);
    }
}

static uint64_t whole_bytes(const sim_mapping *mapping)
{
    uint64_t granule_bytes = sim.conf.granule_bytes;
    return (mapping->bytes + granule_bytes - 1) & ~(granule_bytes - 1);
}

static bool map_memory(const sim_mapping *mapping)
{
    const sim_handle *handle = mapping->handle;
    bool has_token = handle->token_fd >= 0;
    return sim_backing_map(mapping->ptr,
                           has_token ? handle->token_fd : sim.devices[handle->device].memory_fd,
                           has_token ? 0 : handle->offset, whole_bytes(mapping));
}

static void protect_memory(const sim_mapping *mapping)
{
    (void)sim_backing_protect(mapping->ptr, whole_bytes(mapping),
                              (uint32_t)(mapping->rights >> 32) != 0, mapping->rights >> 48 != 0);
}

bool sim_mapping_back(const sim_handle *handle)
{
    bool is_good = true;
    for (const sim_mapping *it = sim.conf.has_memory ? handle->mappings : NULL; it != NULL;
         it = it->next_alias) {
        is_good = map_memory(it) && is_good;
        protect_memory(it);
    }
    return is_good;
}

sim_mapping *sim_mapping_add(sim_reservation *reservation, uint64_t ptr, sim_handle *handle)
{
    sim_device *device = &sim.devices[handle->device];
    uint32_t index;
    sim_mapping *mapping = sim_pool_take(&sim.mappings, &index);
    *mapping = (sim_mapping){
        .index = index,
        .is_live = true,
        .ptr = ptr,
        .bytes = handle->bytes,
        .handle = handle,
        .reservation = reservation,
        .next_alias = handle->mappings,
    };
    if (sim.conf.has_memory && !map_memory(mapping)) {
        mapping->is_live = false;
        sim_pool_give(&sim.mappings, index);
        return NULL;
    }
    handle->mappings = mapping;
    handle->n_mappings++;
    reservation->n_mappings++;
    if (!handle->is_linear) {
        device->n_mappings++;
        device->mapped_bytes += mapping->bytes;
    }
    if (handle->n_mappings == 2) {
        sim_mapping *first = mapping->next_alias;
        first->last_call = sim_hazard_last_use(first->ptr, first->bytes);
        publish_aliases(handle);
    } else {
        publish_mapping(mapping);
    }
    return mapping;
}

static void unlink_mapping(sim_mapping *mapping)
{
    sim_mapping **link = &mapping->handle->mappings;
    while (*link != mapping) {
        link = &(*link)->next_alias;
    }
    *link = mapping->next_alias;
    mapping->handle->n_mappings--;
    mapping->reservation->n_mappings--;
}

void sim_mapping_remove(sim_mapping *mapping)
{
    sim_handle *handle = mapping->handle;
    sim_device *device = &sim.devices[handle->device];
    uint64_t first = mapping->ptr >> sim.conf.granule_shift;
    uint64_t n = whole_bytes(mapping) >> sim.conf.granule_shift;
    for (uint64_t i = 0; i < n; i++) {
        sim_space_set(&sim.space, first + i, 0);
    }
    if (sim.conf.has_memory) {
        sim_backing_unmap(mapping->ptr, whole_bytes(mapping));
    }
    unlink_mapping(mapping);
    if (!handle->is_linear) {
        device->n_mappings--;
        device->mapped_bytes -= mapping->bytes;
    }
    if (handle->n_mappings == 1) {
        publish_aliases(handle);
    }
    mapping->is_live = false;
    sim_pool_give(&sim.mappings, mapping->index);
    sim.access_epoch++;
    sim_handle_settle(handle);
}

void sim_mapping_grant(sim_mapping *mapping, uint64_t rights)
{
    if ((mapping->rights & ~rights) != 0) {
        sim.access_epoch++;
    }
    mapping->rights = rights;
    publish_mapping(mapping);
    if (sim.conf.has_memory) {
        protect_memory(mapping);
    }
}

int sim_mapping_access(const sim_mapping *mapping, int device)
{
    if ((mapping->rights & SIM_GRANULE_WRITE(device)) != 0) {
        return CU_ACCESS_READ_WRITE;
    }
    return (mapping->rights & SIM_GRANULE_READ(device)) != 0 ? CU_ACCESS_READ : CU_ACCESS_NONE;
}

/* Finds the user's reservation around a range of whole granules. */
static sim_reservation *find_target(uint64_t ptr, uint64_t bytes)
{
    if (bytes == 0 || !sim_is_granular(ptr) || !sim_is_granular(bytes)) {
        return NULL;
    }
    sim_reservation *reservation = sim_space_within(&sim.space, ptr, bytes);
    return reservation == NULL || reservation->is_linear ? NULL : reservation;
}

bool sim_mapping_has_room(void)
{
    uint64_t n = 0;
    for (int i = 0; i < sim.conf.n_devices; i++) {
        n += sim.devices[i].n_mappings + sim.devices[i].n_linear;
    }
    if (sim.conf.has_memory && n >= SIM_MAX_MEMORY_MAPPINGS) {
        snprintf(sim_error_text(), SIM_ERROR_BYTES,
                 "simulator: more than %d mappings with backing:memory: use a larger granularity "
                 "or backing:none",
                 SIM_MAX_MEMORY_MAPPINGS);
        return false;
    }
    return true;
}

cu_result sim_mapping_map(uint64_t ptr, uint64_t bytes, sim_handle *handle)
{
    if (handle == NULL || bytes != handle->bytes) {
        return CU_INVALID_VALUE;
    }
    sim_reservation *reservation = find_target(ptr, bytes);
    if (reservation == NULL || sim_space_scan(&sim.space, ptr, ptr + bytes).any != 0) {
        return CU_INVALID_VALUE;
    }
    if (!sim_mapping_has_room() || sim_mapping_add(reservation, ptr, handle) == NULL) {
        return CU_OUT_OF_MEMORY;
    }
    sim_cost_charge(SIM_CU_mem_map, sim.devices[handle->device].n_handles, 1, bytes);
    return CU_SUCCESS;
}

/* Do whole mappings cover the range without a hole? Returns their number, or 0. */
static uint64_t count_whole(uint64_t ptr, uint64_t bytes)
{
    uint64_t n = 0;
    if (find_target(ptr, bytes) == NULL) {
        return 0;
    }
    for (uint64_t at = ptr; at < ptr + bytes;) {
        const sim_mapping *mapping = sim_mapping_at(at);
        if (mapping == NULL || mapping->ptr != at || mapping->bytes > ptr + bytes - at) {
            return 0;
        }
        at += mapping->bytes;
        n++;
    }
    return n;
}

/* Handles on the device of the mapping at `ptr`, for the cost of a call on the run from `ptr`. Runs
 * are taken to be of one device. */
static uint64_t count_live(uint64_t ptr)
{
    return sim.devices[sim_mapping_at(ptr)->handle->device].n_handles;
}

cu_result sim_mapping_unmap(uint64_t ptr, uint64_t bytes)
{
    uint64_t n = count_whole(ptr, bytes);
    if (n == 0) {
        return CU_INVALID_VALUE;
    }
    uint64_t n_live = count_live(ptr);
    sim_hazard_check_unmap(ptr, bytes, "cuMemUnmap");
    if (sim_scope_self()->is_discarding) {
        sim_block_lose(ptr, bytes);
    }
    for (uint64_t at = ptr; at < ptr + bytes;) {
        sim_mapping *mapping = sim_mapping_at(at);
        at += mapping->bytes;
        sim_mapping_remove(mapping);
    }
    sim_cost_charge(SIM_CU_mem_unmap, n_live, n, bytes);
    return CU_SUCCESS;
}

/* The first half of the mappings that fill the run. */
void sim_mapping_unmap_half(uint64_t ptr, uint64_t bytes)
{
    uint64_t at = ptr;
    for (uint64_t n = count_whole(ptr, bytes) / 2; n > 0; n--) {
        at += sim_mapping_at(at)->bytes;
    }
    if (at > ptr) {
        (void)sim_mapping_unmap(ptr, at - ptr);
    }
}

cu_result sim_mapping_read_access(const cu_access_desc *desc, size_t n, uint64_t *mask,
                                  uint64_t *rights)
{
    *mask = 0;
    *rights = 0;
    for (size_t i = 0; i < n; i++) {
        int device = desc[i].location.id;
        if (desc[i].location.type == CU_LOCATION_HOST_NUMA && device == 0) {
            continue; /* the host, which is no device: see is_run_of_host */
        }
        if (desc[i].location.type != CU_LOCATION_DEVICE) {
            return CU_INVALID_VALUE;
        }
        if (sim_device_at(device) == NULL) {
            return CU_INVALID_DEVICE;
        }
        uint64_t both = SIM_GRANULE_READ(device) | SIM_GRANULE_WRITE(device);
        *mask |= both;
        *rights &= ~both;
        if (desc[i].flags == CU_ACCESS_READ_WRITE) {
            *rights |= both;
        } else if (desc[i].flags == CU_ACCESS_READ) {
            *rights |= SIM_GRANULE_READ(device);
        } else if (desc[i].flags != CU_ACCESS_NONE) {
            return CU_INVALID_VALUE;
        }
    }
    return CU_SUCCESS;
}

bool sim_mapping_is_reachable(uint64_t rights, int device)
{
    for (int from = 0; from < sim.conf.n_devices; from++) {
        if ((rights & SIM_GRANULE_READ(from)) != 0 && !sim_device_reaches(from, device)) {
            return false;
        }
    }
    return true;
}

static bool is_run_reachable(uint64_t rights, uint64_t ptr, uint64_t bytes)
{
    for (uint64_t at = ptr; at < ptr + bytes;) {
        const sim_mapping *mapping = sim_mapping_at(at);
        if (!mapping->handle->is_host &&
            !sim_mapping_is_reachable(rights, mapping->handle->device)) {
            return false;
        }
        at += mapping->bytes;
    }
    return true;
}

static bool names_host(const cu_access_desc *desc, size_t n)
{
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        any = any || desc[i].location.type == CU_LOCATION_HOST_NUMA;
    }
    return any;
}

/* The host can be given access to its own memory only. */
static bool is_run_of_host(uint64_t ptr, uint64_t bytes)
{
    for (uint64_t at = ptr; at < ptr + bytes;) {
        const sim_mapping *mapping = sim_mapping_at(at);
        if (!mapping->handle->is_host) {
            return false;
        }
        at += mapping->bytes;
    }
    return true;
}

static bool is_any_rdma(uint64_t ptr, uint64_t bytes)
{
    bool is_any = false;
    for (uint64_t at = ptr; at < ptr + bytes && !is_any;) {
        const sim_mapping *mapping = sim_mapping_at(at);
        is_any = mapping->handle->prop.flags.rdma_capable != 0;
        at += mapping->bytes;
    }
    return is_any;
}

cu_result sim_mapping_set_access(uint64_t ptr, uint64_t bytes, const cu_access_desc *desc, size_t n)
{
    uint64_t mask;
    uint64_t rights;
    if (desc == NULL || n == 0 || count_whole(ptr, bytes) == 0) {
        return CU_INVALID_VALUE;
    }
    cu_result result = sim_mapping_read_access(desc, n, &mask, &rights);
    if (result != CU_SUCCESS) {
        return result;
    }
    if (names_host(desc, n) && !is_run_of_host(ptr, bytes)) {
        return CU_INVALID_VALUE;
    }
    if (!is_run_reachable(rights, ptr, bytes)) {
        return CU_INVALID_DEVICE;
    }
    if (sim.conf.is_rdma_broken && is_any_rdma(ptr, bytes)) {
        return CU_UNKNOWN;
    }
    uint64_t n_mappings = 0;
    for (uint64_t at = ptr; at < ptr + bytes; n_mappings++) {
        sim_mapping *mapping = sim_mapping_at(at);
        sim_mapping_grant(mapping, (mapping->rights & ~mask) | rights);
        at += mapping->bytes;
    }
    sim_cost_charge(SIM_CU_mem_set_access, count_live(ptr), n_mappings, bytes);
    return CU_SUCCESS;
}
