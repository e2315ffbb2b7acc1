/* entry_memory.c - exported calls: virtual memory management. None of them needs a context. */
#include "vmm/tools/sim/entries/call.h"
#include "vmm/tools/sim/memory/memory.h"
#include "vmm/tools/sim/memory/mempool.h"

static cu_result reserve(cu_devptr *ptr, size_t bytes, size_t alignment, cu_devptr hint,
                         unsigned long long flags)
{
    size_t align = alignment > sim.conf.granule_bytes ? alignment : sim.conf.granule_bytes;
    if (ptr == NULL || bytes == 0 || flags != 0 || !sim_is_granular(bytes) ||
        (alignment & (alignment - 1)) != 0 || (hint & (align - 1)) != 0) {
        return CU_INVALID_VALUE;
    }
    const sim_reservation *made = sim_space_reserve(&sim.space, bytes, align, hint, false);
    if (made == NULL) {
        return CU_OUT_OF_MEMORY;
    }
    *ptr = made->base;
    return CU_SUCCESS;
}

cu_result cuMemAddressReserve(cu_devptr *ptr, size_t bytes, size_t alignment, cu_devptr hint,
                              unsigned long long flags)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_address_reserve, 0, bytes, alignment, hint);
    if (call.result == CU_SUCCESS) {
        call.result = reserve(ptr, bytes, alignment, hint, flags);
    }
    if (call.result == CU_SUCCESS) {
        call.args[0] = *ptr;
    }
    return sim_call_end(&call);
}

/* Takes only the exact pair of one reservation, without mappings inside. */
static cu_result free_address(cu_devptr ptr, size_t bytes)
{
    sim_reservation *reservation = sim_space_find(&sim.space, ptr);
    if (reservation == NULL || reservation->base != ptr || reservation->bytes != bytes ||
        reservation->is_linear || reservation->n_mappings > 0) {
        return CU_INVALID_VALUE;
    }
    sim_space_release(&sim.space, reservation);
    return CU_SUCCESS;
}

cu_result cuMemAddressFree(cu_devptr ptr, size_t bytes)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_address_free, ptr, bytes, 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = free_address(ptr, bytes);
    }
    return sim_call_end(&call);
}

cu_result cuMemCreate(cu_mem_handle *handle, size_t bytes, const cu_mem_prop *prop,
                      unsigned long long flags)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_mem_create, 0, bytes,
                   prop == NULL ? 0 : (uint64_t)prop->location.id,
                   prop == NULL ? 0 : (uint64_t)prop->handle_types);
    if (call.result == CU_SUCCESS) {
        call.result = flags != 0 ? CU_INVALID_VALUE : sim_handle_create(handle, bytes, prop);
    }
    if (call.result == CU_SUCCESS) {
        call.args[0] = *handle;
    }
    return sim_call_end(&call);
}

cu_result cuMemRelease(cu_mem_handle handle)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_mem_release, handle, 0, 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = sim_handle_release(handle);
    }
    return sim_call_end(&call);
}

cu_result cuMemMap(cu_devptr ptr, size_t bytes, size_t offset, cu_mem_handle handle,
                   unsigned long long flags)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_mem_map, ptr, bytes, offset, handle);
    if (call.result == CU_SUCCESS) {
        call.result = offset != 0 || flags != 0
                          ? CU_INVALID_VALUE
                          : sim_mapping_map(ptr, bytes, sim_handle_find(handle));
    }
    return sim_call_end(&call);
}

cu_result cuMemUnmap(cu_devptr ptr, size_t bytes)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_mem_unmap, ptr, bytes, 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = sim_mapping_unmap(ptr, bytes);
    } else if (sim.conf.is_unmap_partial) {
        sim_mapping_unmap_half(ptr, bytes);
    }
    return sim_call_end(&call);
}

cu_result cuMemSetAccess(cu_devptr ptr, size_t bytes, const cu_access_desc *desc, size_t count)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_mem_set_access, ptr, bytes,
                   desc == NULL || count == 0 ? 0 : (uint64_t)desc->flags, count);
    if (call.result == CU_SUCCESS) {
        call.result = sim_mapping_set_access(ptr, bytes, desc, count);
    }
    return sim_call_end(&call);
}

static cu_result get_access(unsigned long long *flags, const cu_mem_location *location,
                            cu_devptr ptr)
{
    const sim_mapping *mapping = sim_mapping_at(ptr);
    if (flags == NULL || location == NULL || location->type != CU_LOCATION_DEVICE ||
        mapping == NULL || mapping->handle->is_linear) {
        return CU_INVALID_VALUE;
    }
    if (sim_device_at(location->id) == NULL) {
        return CU_INVALID_DEVICE;
    }
    *flags = (unsigned long long)sim_mapping_access(mapping, location->id);
    return CU_SUCCESS;
}

cu_result cuMemGetAccess(unsigned long long *flags, const cu_mem_location *location, cu_devptr ptr)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_mem_get_access, ptr, location == NULL ? 0 : (uint64_t)location->id,
                   0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = get_access(flags, location, ptr);
    }
    if (call.result == CU_SUCCESS) {
        call.args[2] = *flags;
    }
    return sim_call_end(&call);
}

cu_result cuMemGetAllocationGranularity(size_t *bytes, const cu_mem_prop *prop, int option)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_mem_granularity, 0, (uint64_t)option, 0, 0);
    if (call.result == CU_SUCCESS) {
        bool is_good = bytes != NULL &&
                       (option == CU_GRANULARITY_MINIMUM || option == CU_GRANULARITY_RECOMMENDED);
        call.result = is_good ? sim_handle_check_prop(prop) : CU_INVALID_VALUE;
    }
    if (call.result == CU_SUCCESS) {
        *bytes = sim.conf.granule_bytes;
        call.args[0] = *bytes;
    }
    return sim_call_end(&call);
}

cu_result cuMemRetainAllocationHandle(cu_mem_handle *handle, void *address)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_mem_retain_handle, 0, sim_arg(address), 0, 0);
    if (call.result == CU_SUCCESS) {
        sim_mapping *mapping = sim_mapping_at(sim_arg(address));
        if (handle == NULL || mapping == NULL || mapping->handle->is_linear) {
            call.result = CU_INVALID_VALUE;
        } else {
            mapping->handle->refs++;
            *handle = sim_handle_value(mapping->handle);
            call.args[0] = *handle;
        }
    }
    return sim_call_end(&call);
}

cu_result cuMemGetAllocationPropertiesFromHandle(cu_mem_prop *prop, cu_mem_handle handle)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_mem_handle_prop, handle, 0, 0, 0);
    if (call.result == CU_SUCCESS) {
        const sim_handle *it = sim_handle_find(handle);
        if (prop == NULL || it == NULL) {
            call.result = CU_INVALID_VALUE;
        } else {
            *prop = it->prop;
        }
    }
    return sim_call_end(&call);
}

cu_result cuMemExportToShareableHandle(void *shareable, cu_mem_handle handle, int handle_type,
                                       unsigned long long flags)
{
    sim_call call;
    int fd = -1;
    sim_call_begin(&call, SIM_CU_mem_export, handle, (uint64_t)handle_type, 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = shareable == NULL || flags != 0 ? CU_INVALID_VALUE
                                                      : sim_handle_export(&fd, handle, handle_type);
    }
    if (call.result == CU_SUCCESS) {
        *(int *)shareable = fd;
        call.args[2] = (uint64_t)fd;
    }
    return sim_call_end(&call);
}

cu_result cuMemImportFromShareableHandle(cu_mem_handle *handle, void *os_handle, int handle_type)
{
    sim_call call;
    int fd = (int)(intptr_t)os_handle;
    sim_call_begin(&call, SIM_CU_mem_import, 0, (uint64_t)handle_type, (uint64_t)fd, 0);
    if (call.result == CU_SUCCESS) {
        call.result = sim_handle_import(handle, fd, handle_type);
    }
    if (call.result == CU_SUCCESS) {
        call.args[0] = *handle;
    }
    return sim_call_end(&call);
}

/* The simulator knows the host memory that it allocated or that was registered. */
static cu_result pointer_attribute(void *value, int attribute, cu_devptr ptr)
{
    int device = 0;
    const sim_mapping *mapping = sim_mapping_at(ptr);
    sim_host_kind kind = sim_host_find(ptr, &device);
    bool is_host = kind != SIM_HOST_NONE;
    if (value == NULL || (mapping == NULL && !is_host)) {
        return CU_INVALID_VALUE;
    }
    switch (attribute) {
    case CU_POINTER_MEMORY_TYPE:
        *(int *)value = is_host && kind != SIM_HOST_MANAGED ? CU_MEMORY_OF_HOST
                                                            : CU_MEMORY_OF_DEVICE;
        return CU_SUCCESS;
    case CU_POINTER_DEVICE_ORDINAL:
        *(int *)value = is_host ? device : mapping->handle->device;
        return CU_SUCCESS;
    case CU_POINTER_IS_MANAGED:
        *(int *)value = kind == SIM_HOST_MANAGED;
        return CU_SUCCESS;
    case CU_POINTER_DEVICE_POINTER:
        *(cu_devptr *)value = ptr;
        return CU_SUCCESS;
    case CU_POINTER_HOST_POINTER:
        if (is_host) {
            *(cu_devptr *)value = ptr;
        }
        return is_host ? CU_SUCCESS : CU_INVALID_VALUE;
    default:
        return CU_INVALID_VALUE;
    }
}

cu_result cuPointerGetAttribute(void *value, int attribute, cu_devptr ptr)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_pointer_attribute, (uint64_t)attribute, ptr, 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = pointer_attribute(value, attribute, ptr);
    }
    return sim_call_end(&call);
}

cu_result cuMemGetAddressRange_v2(cu_devptr *base, size_t *bytes, cu_devptr ptr)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_mem_address_range, ptr, 0, 0, 0);
    if (call.result == CU_SUCCESS) {
        const sim_mapping *mapping = sim_mapping_at(ptr);
        if (mapping == NULL || ptr - mapping->ptr >= mapping->bytes) {
            call.result = CU_NOT_FOUND;
        } else if (mapping->handle->segment != NULL) {
            const sim_piece *piece = sim_piece_at(mapping->handle->segment, ptr);
            bool is_inside = piece->state == SIM_PIECE_LIVE &&
                             ptr - piece->ptr < piece->asked_bytes;
            call.result = is_inside ? CU_SUCCESS : CU_NOT_FOUND;
            call.args[1] = piece->ptr;
            call.args[2] = piece->asked_bytes;
        } else {
            call.args[1] = mapping->ptr;
            call.args[2] = mapping->bytes;
        }
    }
    if (call.result == CU_SUCCESS && base != NULL) {
        *base = call.args[1];
    }
    if (call.result == CU_SUCCESS && bytes != NULL) {
        *bytes = call.args[2];
    }
    return sim_call_end(&call);
}
