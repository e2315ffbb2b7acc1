/* vmm_abi_test.c - our own declarations of the driver's ABI agree with the vendor's header.
 *
 * All but two handles are compared when it is compiled, which happens where CMake finds cuda.h;
 * without it the test is skipped (exit 77). */
#include <stddef.h>
#include <stdio.h>

#ifdef PLEAT_HAVE_CUDA_H

#define __CUDA_API_VERSION_INTERNAL /* declare the older versions of entry points too */
#include <cuda.h>

/* Both headers define these two names: keep the vendor's values, then take ours. */
static const void *const vendor_legacy = CU_STREAM_LEGACY;
static const void *const vendor_per_thread = CU_STREAM_PER_THREAD;
#undef CU_STREAM_LEGACY
#undef CU_STREAM_PER_THREAD

#include "vmm/driver_list.h"

#define SAME_SIZE(ours, theirs) _Static_assert(sizeof(ours) == sizeof(theirs), #theirs)
#define SAME_PLACE(ours, field, theirs, their_field)                                               \
    _Static_assert(offsetof(ours, field) == offsetof(theirs, their_field) &&                       \
                       sizeof(((ours *)0)->field) == sizeof(((theirs *)0)->their_field),           \
                   #theirs "." #their_field)
#define SAME_VALUE(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)

SAME_SIZE(cu_result, CUresult);
SAME_SIZE(cu_device, CUdevice);
SAME_SIZE(cu_devptr, CUdeviceptr);
SAME_SIZE(cu_mem_handle, CUmemGenericAllocationHandle);
SAME_SIZE(cu_context, CUcontext);
SAME_SIZE(cu_stream, CUstream);
SAME_SIZE(cu_event, CUevent);
SAME_SIZE(cu_graph, CUgraph);
SAME_SIZE(cu_graph_exec, CUgraphExec);
SAME_SIZE(cu_graph_node, CUgraphNode);
SAME_SIZE(int, CUdevice_attribute);
SAME_SIZE(int, CUmemAllocationGranularity_flags);
SAME_SIZE(int, CUmemAllocationHandleType);
SAME_SIZE(int, CUstreamCaptureMode);
SAME_SIZE(int, CUstreamCaptureStatus);
SAME_SIZE(uint64_t, cuuint64_t);
SAME_SIZE(void *, CUdeviceptr);

SAME_SIZE(cu_mem_location, CUmemLocation);
SAME_PLACE(cu_mem_location, type, CUmemLocation, type);
SAME_PLACE(cu_mem_location, id, CUmemLocation, id);

SAME_SIZE(cu_access_desc, CUmemAccessDesc);
SAME_PLACE(cu_access_desc, location, CUmemAccessDesc, location);
SAME_PLACE(cu_access_desc, flags, CUmemAccessDesc, flags);

SAME_SIZE(cu_mem_prop, CUmemAllocationProp);
SAME_PLACE(cu_mem_prop, type, CUmemAllocationProp, type);
SAME_PLACE(cu_mem_prop, handle_types, CUmemAllocationProp, requestedHandleTypes);
SAME_PLACE(cu_mem_prop, location, CUmemAllocationProp, location);
SAME_PLACE(cu_mem_prop, win32_metadata, CUmemAllocationProp, win32HandleMetaData);
SAME_PLACE(cu_mem_prop, flags, CUmemAllocationProp, allocFlags);
SAME_PLACE(cu_mem_prop, flags.compression_type, CUmemAllocationProp, allocFlags.compressionType);
SAME_PLACE(cu_mem_prop, flags.rdma_capable, CUmemAllocationProp, allocFlags.gpuDirectRDMACapable);
SAME_PLACE(cu_mem_prop, flags.usage, CUmemAllocationProp, allocFlags.usage);
SAME_PLACE(cu_mem_prop, flags.reserved, CUmemAllocationProp, allocFlags.reserved);

SAME_VALUE(CU_SUCCESS, CUDA_SUCCESS);
SAME_VALUE(CU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
SAME_VALUE(CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME_VALUE(CU_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED);
SAME_VALUE(CU_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED);
SAME_VALUE(CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME_VALUE(CU_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE);
SAME_VALUE(CU_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT);
SAME_VALUE(CU_ALREADY_MAPPED, CUDA_ERROR_ALREADY_MAPPED);
SAME_VALUE(CU_NOT_MAPPED, CUDA_ERROR_NOT_MAPPED);
SAME_VALUE(CU_OPERATING_SYSTEM, CUDA_ERROR_OPERATING_SYSTEM);
SAME_VALUE(CU_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE);
SAME_VALUE(CU_ILLEGAL_STATE, CUDA_ERROR_ILLEGAL_STATE);
SAME_VALUE(CU_NOT_FOUND, CUDA_ERROR_NOT_FOUND);
SAME_VALUE(CU_NOT_READY, CUDA_ERROR_NOT_READY);
SAME_VALUE(CU_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME_VALUE(CU_CONTEXT_IS_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME_VALUE(CU_NOT_PERMITTED, CUDA_ERROR_NOT_PERMITTED);
SAME_VALUE(CU_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED);
SAME_VALUE(CU_CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME_VALUE(CU_CAPTURE_INVALIDATED, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
SAME_VALUE(CU_CAPTURE_MERGE, CUDA_ERROR_STREAM_CAPTURE_MERGE);
SAME_VALUE(CU_CAPTURE_UNMATCHED, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
SAME_VALUE(CU_CAPTURE_UNJOINED, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
SAME_VALUE(CU_CAPTURE_ISOLATION, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
SAME_VALUE(CU_CAPTURE_IMPLICIT, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
SAME_VALUE(CU_CAPTURED_EVENT, CUDA_ERROR_CAPTURED_EVENT);
SAME_VALUE(CU_CAPTURE_WRONG_THREAD, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
SAME_VALUE(CU_UNKNOWN, CUDA_ERROR_UNKNOWN);

SAME_VALUE(CU_STREAM_DEFAULT_FLAG, CU_STREAM_DEFAULT);
SAME_VALUE(CU_STREAM_NON_BLOCKING_FLAG, CU_STREAM_NON_BLOCKING);
SAME_VALUE(CU_EVENT_DEFAULT_FLAG, CU_EVENT_DEFAULT);
SAME_VALUE(CU_EVENT_DISABLE_TIMING_FLAG, CU_EVENT_DISABLE_TIMING);

SAME_VALUE(CU_ATTR_INTEGRATED, CU_DEVICE_ATTRIBUTE_INTEGRATED);
SAME_VALUE(CU_ATTR_PCI_BUS_ID, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
SAME_VALUE(CU_ATTR_PCI_DEVICE_ID, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
SAME_VALUE(CU_ATTR_PCI_DOMAIN_ID, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
SAME_VALUE(CU_ATTR_COMPUTE_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME_VALUE(CU_ATTR_COMPUTE_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME_VALUE(CU_ATTR_VMM_SUPPORTED, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME_VALUE(CU_ATTR_POSIX_FD_SUPPORTED,
           CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
SAME_VALUE(CU_ATTR_RDMA_WITH_VMM_SUPPORTED,
           CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
SAME_VALUE(CU_ATTR_64_BIT_STREAM_MEM_OPS, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
SAME_VALUE(CU_ATTR_FABRIC_SUPPORTED, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED);

SAME_VALUE(CU_ALLOCATION_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME_VALUE(CU_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
SAME_VALUE(CU_HANDLE_NONE, CU_MEM_HANDLE_TYPE_NONE);
SAME_VALUE(CU_HANDLE_POSIX_FD, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SAME_VALUE(CU_HANDLE_FABRIC, CU_MEM_HANDLE_TYPE_FABRIC);
SAME_VALUE(CU_ACCESS_NONE, CU_MEM_ACCESS_FLAGS_PROT_NONE);
SAME_VALUE(CU_ACCESS_READ, CU_MEM_ACCESS_FLAGS_PROT_READ);
SAME_VALUE(CU_ACCESS_READ_WRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME_VALUE(CU_GRANULARITY_MINIMUM, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
SAME_VALUE(CU_GRANULARITY_RECOMMENDED, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);

SAME_VALUE(CU_CAPTURE_NONE, CU_STREAM_CAPTURE_STATUS_NONE);
SAME_VALUE(CU_CAPTURE_ACTIVE, CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME_VALUE(CU_CAPTURE_STATUS_INVALIDATED, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
SAME_VALUE(CU_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_GLOBAL);
SAME_VALUE(CU_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME_VALUE(CU_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);

/* Every symbol of the list is one that the vendor declares. */
#define IS_DECLARED(field, symbol, need, params, args)                                             \
    _Static_assert(sizeof(&symbol) == sizeof(void *), #symbol);
PL_DRIVER_LIST(IS_DECLARED)

int main(void)
{
    if (vendor_legacy != (const void *)CU_STREAM_LEGACY ||
        vendor_per_thread != (const void *)CU_STREAM_PER_THREAD) {
        printf("the default streams' handles differ\n");
        return 1;
    }
    printf("driver_abi.h agrees with cuda.h of CUDA %d.%d\n", CUDA_VERSION / 1000,
           CUDA_VERSION % 1000 / 10);
    return 0;
}

#else

int main(void)
{
    printf("no cuda.h: skipped\n");
    return 77;
}

#endif
