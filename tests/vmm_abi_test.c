/* vmm_abi_test.c - pleat's own declarations of the driver's binary interface against cuda.h.
 *
 * What can be compared is compared while this compiles; the test exists so that it is compiled, and
 * says (77, skipped) when there was no cuda.h to compare with. The numbers below the line hold with
 * and without cuda.h. */
#include <stdint.h>
#include <stdio.h>

#include "vmm/driver_abi.h"

/* Macros of the same name in cuda.h: kept under other names before it comes. */
static const uintptr_t own_legacy = (uintptr_t)CU_STREAM_LEGACY;
static const uintptr_t own_per_thread = (uintptr_t)CU_STREAM_PER_THREAD;
#undef CU_STREAM_LEGACY
#undef CU_STREAM_PER_THREAD

#ifdef PLEAT_HAVE_CUDA_H
#include <cuda.h>

#define SAME_SIZE(own, theirs) _Static_assert(sizeof(own) == sizeof(theirs), #own)
#define SAME_PLACE(own, own_field, theirs, their_field)                                            \
    _Static_assert(offsetof(own, own_field) == offsetof(theirs, their_field), #own "." #own_field)
#define SAME(own, theirs) _Static_assert((int)(own) == (int)(theirs), #own)

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
SAME_SIZE(cu_mem_location, CUmemLocation);
SAME_PLACE(cu_mem_location, type, CUmemLocation, type);
SAME_PLACE(cu_mem_location, id, CUmemLocation, id);
SAME_SIZE(cu_mem_prop, CUmemAllocationProp);
SAME_PLACE(cu_mem_prop, type, CUmemAllocationProp, type);
SAME_PLACE(cu_mem_prop, handle_types, CUmemAllocationProp, requestedHandleTypes);
SAME_PLACE(cu_mem_prop, location, CUmemAllocationProp, location);
SAME_PLACE(cu_mem_prop, win32_metadata, CUmemAllocationProp, win32HandleMetaData);
SAME_PLACE(cu_mem_prop, flags, CUmemAllocationProp, allocFlags);
SAME_PLACE(cu_mem_prop, flags.rdma_capable, CUmemAllocationProp, allocFlags.gpuDirectRDMACapable);
SAME_PLACE(cu_mem_prop, flags.usage, CUmemAllocationProp, allocFlags.usage);
SAME_SIZE(cu_access_desc, CUmemAccessDesc);
SAME_PLACE(cu_access_desc, location, CUmemAccessDesc, location);
SAME_PLACE(cu_access_desc, flags, CUmemAccessDesc, flags);

SAME(CU_SUCCESS, CUDA_SUCCESS);
SAME(CU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
SAME(CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(CU_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED);
SAME(CU_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED);
SAME(CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME(CU_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE);
SAME(CU_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT);
SAME(CU_ALREADY_MAPPED, CUDA_ERROR_ALREADY_MAPPED);
SAME(CU_NOT_MAPPED, CUDA_ERROR_NOT_MAPPED);
SAME(CU_OPERATING_SYSTEM, CUDA_ERROR_OPERATING_SYSTEM);
SAME(CU_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE);
SAME(CU_ILLEGAL_STATE, CUDA_ERROR_ILLEGAL_STATE);
SAME(CU_NOT_FOUND, CUDA_ERROR_NOT_FOUND);
SAME(CU_NOT_READY, CUDA_ERROR_NOT_READY);
SAME(CU_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME(CU_CONTEXT_IS_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME(CU_NOT_PERMITTED, CUDA_ERROR_NOT_PERMITTED);
SAME(CU_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED);
SAME(CU_CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME(CU_CAPTURE_INVALIDATED, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
SAME(CU_CAPTURE_MERGE, CUDA_ERROR_STREAM_CAPTURE_MERGE);
SAME(CU_CAPTURE_UNMATCHED, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
SAME(CU_CAPTURE_UNJOINED, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
SAME(CU_CAPTURE_ISOLATION, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
SAME(CU_CAPTURE_IMPLICIT, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
SAME(CU_CAPTURED_EVENT, CUDA_ERROR_CAPTURED_EVENT);
SAME(CU_CAPTURE_WRONG_THREAD, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
SAME(CU_UNKNOWN, CUDA_ERROR_UNKNOWN);

SAME(CU_STREAM_DEFAULT_FLAG, CU_STREAM_DEFAULT);
SAME(CU_STREAM_NON_BLOCKING_FLAG, CU_STREAM_NON_BLOCKING);
SAME(CU_EVENT_DEFAULT_FLAG, CU_EVENT_DEFAULT);
SAME(CU_EVENT_DISABLE_TIMING_FLAG, CU_EVENT_DISABLE_TIMING);
SAME(CU_ATTR_INTEGRATED, CU_DEVICE_ATTRIBUTE_INTEGRATED);
SAME(CU_ATTR_PCI_BUS_ID, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
SAME(CU_ATTR_PCI_DEVICE_ID, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
SAME(CU_ATTR_PCI_DOMAIN_ID, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
SAME(CU_ATTR_COMPUTE_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(CU_ATTR_COMPUTE_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(CU_ATTR_VMM_SUPPORTED, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME(CU_ATTR_POSIX_FD_SUPPORTED, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
SAME(CU_ATTR_RDMA_WITH_VMM_SUPPORTED, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
SAME(CU_ATTR_64_BIT_STREAM_MEM_OPS, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
#if CUDA_VERSION >= 12030
SAME(CU_ATTR_FABRIC_SUPPORTED, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED);
SAME(CU_HANDLE_FABRIC, CU_MEM_HANDLE_TYPE_FABRIC);
#endif
SAME(CU_ALLOCATION_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME(CU_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
SAME(CU_HANDLE_NONE, CU_MEM_HANDLE_TYPE_NONE);
SAME(CU_HANDLE_POSIX_FD, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SAME(CU_ACCESS_NONE, CU_MEM_ACCESS_FLAGS_PROT_NONE);
SAME(CU_ACCESS_READ, CU_MEM_ACCESS_FLAGS_PROT_READ);
SAME(CU_ACCESS_READ_WRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME(CU_GRANULARITY_MINIMUM, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
SAME(CU_GRANULARITY_RECOMMENDED, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
SAME(CU_CAPTURE_NONE, CU_STREAM_CAPTURE_STATUS_NONE);
SAME(CU_CAPTURE_ACTIVE, CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME(CU_CAPTURE_STATUS_INVALIDATED, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
SAME(CU_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_GLOBAL);
SAME(CU_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME(CU_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);

static int compare_handles(void)
{
    return own_legacy == (uintptr_t)CU_STREAM_LEGACY &&
                   own_per_thread == (uintptr_t)CU_STREAM_PER_THREAD
               ? 0
               : 1;
}

#else

static int compare_handles(void)
{
    puts("no cuda.h: only the sizes that the interface documents were compared");
    return own_legacy == 1 && own_per_thread == 2 ? 77 : 1;
}

#endif

/* ---- of the 64-bit interface, whatever its header -------------------------------------------- */

_Static_assert(sizeof(void *) == 8, "64-bit only");
_Static_assert(sizeof(cu_mem_handle) == 8, "handle");
_Static_assert(sizeof(cu_mem_location) == 8, "location");
_Static_assert(sizeof(cu_mem_prop) == 32, "properties");
_Static_assert(offsetof(cu_mem_prop, win32_metadata) == 16, "metadata");
_Static_assert(offsetof(cu_mem_prop, flags) == 24, "flags");
_Static_assert(sizeof(cu_access_desc) == 12, "access");

int main(void)
{
    return compare_handles();
}
