/* older.c - calls of CUDA 12 that have a new name or new parameters in CUDA 13. */
#include <string.h>

#include "vmm/tools/runtime/runtime.h"

/* The two layouts agree from the first named member up to the end member. */
#define COPY_PART(to, to_first, from, from_first, from_end)                                        \
    memcpy(&(to)->to_first, &(from)->from_first,                                                   \
           offsetof(rt_device_prop, from_end) - offsetof(rt_device_prop, from_first))

rt_error cudaGetDeviceProperties_v2(rt_device_prop_12 *prop, int device)
{
    rt_device_prop now;
    rt_error error = cudaGetDeviceProperties(&now, device);

    if (error != CU_SUCCESS) {
        return error;
    }
    memset(prop, 0, sizeof(*prop));
    memcpy(prop->head, &now, sizeof(prop->head));
    prop->clock_khz = rt_attribute(13, device);
    COPY_PART(prop, const_bytes, &now, const_bytes, n_multiprocessors);
    prop->device_overlap = 1;
    prop->n_multiprocessors = now.n_multiprocessors;
    prop->is_integrated = now.is_integrated;
    prop->can_map_host = now.can_map_host;
    prop->surface_alignment = now.surface_alignment;
    COPY_PART(prop, abilities, &now, concurrent_kernels, bus_width);
    prop->memory_clock_khz = rt_attribute(36, device);
    prop->bus_width = now.bus_width;
    memcpy(prop->limits, &now.l2_bytes, sizeof(prop->limits));
    prop->shared_per_multiprocessor = now.shared_per_multiprocessor;
    memcpy(prop->more_abilities, &now.regs_per_multiprocessor, sizeof(prop->more_abilities));
    COPY_PART(prop, pageable_access, &now, pageable_access, shared_per_block_optin);
    COPY_PART(prop, shared_per_block_optin, &now, shared_per_block_optin, numa_config);
    return error;
}

rt_error cudaEventElapsedTime_v2(float *milliseconds, cu_event start, cu_event end)
{
    return cudaEventElapsedTime(milliseconds, start, end);
}

rt_error cudaGetDriverEntryPoint(const char *name, void **out, unsigned long long flags,
                                 int *status)
{
    return cudaGetDriverEntryPointByVersion(name, out, 0, flags, status);
}

rt_error cudaGraphInstantiate(cu_graph_exec *exec, cu_graph graph, unsigned long long flags)
{
    return cudaGraphInstantiateWithFlags(exec, graph, flags);
}

/* Host memory has the same address on the device. */
rt_error cudaHostGetDevicePointer(void **out, void *host, unsigned flags)
{
    (void)flags;
    *out = host;
    return rt_end(__func__, rt_host_is_pinned(host) ? CU_SUCCESS : CU_INVALID_VALUE);
}

rt_error cudaStreamGetCaptureInfo_v2(cu_stream stream, int *status, unsigned long long *id,
                                     cu_graph *graph, const cu_graph_node **deps, size_t *n_deps)
{
    return cudaStreamGetCaptureInfo(stream, status, id, graph, deps, NULL, n_deps);
}
