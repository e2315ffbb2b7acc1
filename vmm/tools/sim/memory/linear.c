/* linear.c - cuMemAlloc combines address, memory, mapping and access, charged to the byte. */
#include "vmm/tools/sim/cost.h"
#include "vmm/tools/sim/memory/memory.h"

/* The handle serves only this allocation, which fails if the handle is NULL. */
static cu_result map_linear(const sim_context *context, sim_handle *handle, uint64_t rights,
                            cu_devptr *ptr)
{
    uint64_t granule_bytes = sim.conf.granule_bytes;
    if (handle == NULL) {
        return CU_OUT_OF_MEMORY;
    }
    uint64_t span = (handle->bytes + granule_bytes - 1) & ~(granule_bytes - 1);
    sim_reservation *reservation = sim_space_reserve(&sim.space, span, granule_bytes, 0, true);
    if (reservation == NULL) {
        goto undo_take;
    }
    sim_mapping *mapping = sim_mapping_add(reservation, reservation->base, handle);
    if (mapping == NULL) {
        goto undo_reserve;
    }
    sim_mapping_grant(mapping, rights);
    handle->refs = 0; /* the mapping holds it */
    handle->context = context;
    sim.devices[handle->device].n_allocations++;
    sim_cost_charge(SIM_CU_mem_alloc, sim.devices[handle->device].n_handles, 1, handle->bytes);
    *ptr = reservation->base;
    return CU_SUCCESS;

undo_reserve:
    sim_space_release(&sim.space, reservation);
undo_take:
    handle->refs = 0;
    sim_handle_settle(handle);
    return CU_OUT_OF_MEMORY;
}

cu_result sim_linear_alloc(const sim_context *context, size_t bytes, cu_devptr *ptr)
{
    int device = context->device;
    if (ptr == NULL || bytes == 0) {
        return CU_INVALID_VALUE;
    }
    if (bytes > sim.conf.capacity_bytes || !sim_mapping_has_room()) {
        return CU_OUT_OF_MEMORY;
    }
    return map_linear(context, sim_handle_take(device, bytes, true),
                      SIM_GRANULE_READ(device) | SIM_GRANULE_WRITE(device), ptr);
}

cu_result sim_linear_alloc_host(const sim_context *context, size_t bytes, cu_devptr *ptr)
{
    uint64_t rights = 0;
    if (bytes > sim.conf.host_bytes || !sim_mapping_has_room()) {
        return CU_OUT_OF_MEMORY;
    }
    for (int i = 0; i < sim.conf.n_devices; i++) {
        rights |= SIM_GRANULE_READ(i) | SIM_GRANULE_WRITE(i);
    }
    return map_linear(context, sim_handle_take_host(bytes, true), rights, ptr);
}

sim_mapping *sim_linear_find(uint64_t ptr)
{
    sim_mapping *mapping = sim_mapping_at(ptr);
    bool is_own = mapping != NULL && mapping->handle->is_linear && !mapping->handle->is_foreign &&
                  mapping->handle->segment == NULL;
    return is_own && mapping->ptr == ptr ? mapping : NULL;
}

void sim_linear_free(sim_mapping *mapping)
{
    sim_reservation *reservation = mapping->reservation;
    sim_device *device = &sim.devices[mapping->handle->device];
    device->n_allocations--;
    sim_cost_charge(SIM_CU_mem_free, device->n_handles, 1, mapping->bytes);
    sim_mapping_remove(mapping);
    sim_space_release(&sim.space, reservation);
}
