/* runtime_abi_test.c - the project's declarations of the runtime's ABI agree with the vendor's.
 *
 * The compiler compares them if CMake finds the runtime's header, of CUDA 12 or later. Otherwise
 * the test is skipped (exit 77). */
/* alone: it is compiled with the vendor's header */
#include <stdio.h>

#ifdef PLEAT_HAVE_CUDA_H
#include <cuda_runtime_api.h>
#endif

#if defined(PLEAT_HAVE_CUDA_H) && CUDART_VERSION >= 13000

#include "tests/support/vmm/vmm_same.h"
#include "vmm/tools/runtime/runtime_abi.h"

typedef struct cudaDeviceProp their_prop;
typedef struct cudaFuncAttributes their_func;
typedef struct cudaPointerAttributes their_pointer;

SAME_SIZE(rt_dim3, dim3);
SAME_SIZE(rt_error, cudaError_t);
SAME_SIZE(rt_ipc_handle, cudaIpcMemHandle_t);
SAME_SIZE(rt_ipc_handle, cudaIpcEventHandle_t);

SAME_SIZE(rt_device_prop, their_prop);
SAME_PLACE(rt_device_prop, total_bytes, their_prop, totalGlobalMem);
SAME_PLACE(rt_device_prop, major, their_prop, major);
SAME_PLACE(rt_device_prop, n_multiprocessors, their_prop, multiProcessorCount);
SAME_PLACE(rt_device_prop, textures_and_surfaces[0], their_prop, maxTexture1D);
SAME_PLACE(rt_device_prop, surface_alignment, their_prop, surfaceAlignment);
SAME_PLACE(rt_device_prop, pci_bus, their_prop, pciBusID);
SAME_PLACE(rt_device_prop, l2_bytes, their_prop, l2CacheSize);
SAME_PLACE(rt_device_prop, max_threads_per_multiprocessor, their_prop, maxThreadsPerMultiProcessor);
SAME_PLACE(rt_device_prop, shared_per_multiprocessor, their_prop, sharedMemPerMultiprocessor);
SAME_PLACE(rt_device_prop, cooperative_launch, their_prop, cooperativeLaunch);
SAME_PLACE(rt_device_prop, shared_per_block_optin, their_prop, sharedMemPerBlockOptin);
SAME_PLACE(rt_device_prop, shared_reserved_per_block, their_prop, reservedSharedMemPerBlock);
SAME_PLACE(rt_device_prop, memory_pools, their_prop, memoryPoolsSupported);
SAME_PLACE(rt_device_prop, cluster_launch, their_prop, clusterLaunch);
SAME_PLACE(rt_device_prop, host_numa_id, their_prop, hostNumaId);

SAME_SIZE(rt_func_attributes, their_func);
SAME_PLACE(rt_func_attributes, max_threads_per_block, their_func, maxThreadsPerBlock);
SAME_PLACE(rt_func_attributes, binary_version, their_func, binaryVersion);
SAME_PLACE(rt_func_attributes, max_dynamic_shared_bytes, their_func, maxDynamicSharedSizeBytes);
SAME_PLACE(rt_func_attributes, non_portable_cluster, their_func, nonPortableClusterSizeAllowed);

SAME_PLACE(rt_pointer_attributes, type, their_pointer, type);
SAME_PLACE(rt_pointer_attributes, device, their_pointer, device);
SAME_PLACE(rt_pointer_attributes, device_pointer, their_pointer, devicePointer);
SAME_PLACE(rt_pointer_attributes, host_pointer, their_pointer, hostPointer);
_Static_assert(sizeof(rt_pointer_attributes) == offsetof(their_pointer, reserved), "what is told");

SAME_SIZE(rt_launch_config, cudaLaunchConfig_t);
SAME_PLACE(rt_launch_config, shared_bytes, cudaLaunchConfig_t, dynamicSmemBytes);
SAME_PLACE(rt_launch_config, stream, cudaLaunchConfig_t, stream);

SAME_VALUE(RT_INVALID_SYMBOL, cudaErrorInvalidSymbol);
SAME_VALUE(RT_NOT_SUPPORTED, cudaErrorNotSupported);
SAME_VALUE(RT_HOST, cudaMemoryTypeHost);
SAME_VALUE(RT_DEVICE, cudaMemoryTypeDevice);
SAME_VALUE(RT_MANAGED, cudaMemoryTypeManaged);
SAME_VALUE(RT_HOST_TO_DEVICE, cudaMemcpyHostToDevice);
SAME_VALUE(RT_DEVICE_TO_HOST, cudaMemcpyDeviceToHost);
SAME_VALUE(RT_DEVICE_TO_DEVICE, cudaMemcpyDeviceToDevice);
SAME_VALUE(RT_DIRECTION_BY_ADDRESS, cudaMemcpyDefault);
SAME_VALUE(RT_SYMBOL_NOT_FOUND, cudaDriverEntryPointSymbolNotFound);

/* Numbers that are passed on: the driver's are also the runtime's. */
SAME_VALUE(CU_OUT_OF_MEMORY, cudaErrorMemoryAllocation);
SAME_VALUE(CU_NOT_INITIALIZED, cudaErrorInitializationError);
SAME_VALUE(CU_NO_DEVICE, cudaErrorNoDevice);
SAME_VALUE(CU_INVALID_DEVICE, cudaErrorInvalidDevice);
SAME_VALUE(CU_INVALID_CONTEXT, cudaErrorDeviceUninitialized);
SAME_VALUE(CU_INVALID_HANDLE, cudaErrorInvalidResourceHandle);
SAME_VALUE(CU_NOT_READY, cudaErrorNotReady);
SAME_VALUE(CU_ILLEGAL_ADDRESS, cudaErrorIllegalAddress);
SAME_VALUE(CU_HOST_ALREADY_REGISTERED, cudaErrorHostMemoryAlreadyRegistered);
SAME_VALUE(CU_HOST_NOT_REGISTERED, cudaErrorHostMemoryNotRegistered);
SAME_VALUE(CU_NOT_PERMITTED, cudaErrorNotPermitted);
SAME_VALUE(CU_CAPTURE_UNSUPPORTED, cudaErrorStreamCaptureUnsupported);
SAME_VALUE(CU_CAPTURE_INVALIDATED, cudaErrorStreamCaptureInvalidated);
SAME_VALUE(CU_CAPTURE_IMPLICIT, cudaErrorStreamCaptureImplicit);
SAME_VALUE(CU_CAPTURED_EVENT, cudaErrorCapturedEvent);
SAME_VALUE(CU_CAPTURE_ACTIVE, cudaStreamCaptureStatusActive);
SAME_VALUE(CU_CAPTURE_MODE_RELAXED, cudaStreamCaptureModeRelaxed);
SAME_VALUE(CU_POOL_RELEASE_THRESHOLD, cudaMemPoolAttrReleaseThreshold);
SAME_VALUE(CU_POOL_RESERVED_CURRENT, cudaMemPoolAttrReservedMemCurrent);
SAME_VALUE(CU_POOL_USED_HIGH, cudaMemPoolAttrUsedMemHigh);
SAME_VALUE(CU_ATTR_COMPUTE_MAJOR, cudaDevAttrComputeCapabilityMajor);
SAME_VALUE(CU_ATTR_MEMPOOLS_SUPPORTED, cudaDevAttrMemoryPoolsSupported);
SAME_SIZE(cu_access_desc, struct cudaMemAccessDesc);
SAME_SIZE(cu_mempool_props, struct cudaMemPoolProps);
SAME_PLACE(cu_mempool_props, max_bytes, struct cudaMemPoolProps, maxSize);

int main(void)
{
    printf("the runtime's ABI agrees with CUDA %d.%d's header\n", CUDART_VERSION / 1000,
           CUDART_VERSION % 1000 / 10);
    return 0;
}

#elif defined(PLEAT_HAVE_CUDA_H) && CUDART_VERSION >= 12000

#include "tests/support/vmm/vmm_same.h"
#include "vmm/tools/runtime/runtime_abi.h"

typedef struct cudaDeviceProp their_prop;

#define SAME_START(field, their_field)                                                             \
    _Static_assert(offsetof(rt_device_prop_12, field) == offsetof(their_prop, their_field),        \
                   #their_field)

SAME_SIZE(rt_pointer_attributes, struct cudaPointerAttributes);
SAME_SIZE(rt_device_prop_12, their_prop);
SAME_START(clock_khz, clockRate);
SAME_START(const_bytes, totalConstMem);
SAME_START(n_multiprocessors, multiProcessorCount);
SAME_START(can_map_host, canMapHostMemory);
SAME_START(textures_and_surfaces, maxTexture1D);
SAME_START(surface_alignment, surfaceAlignment);
SAME_START(abilities, concurrentKernels);
SAME_START(memory_clock_khz, memoryClockRate);
SAME_START(limits, l2CacheSize);
SAME_START(shared_per_multiprocessor, sharedMemPerMultiprocessor);
SAME_START(more_abilities, regsPerMultiprocessor);
SAME_START(pageable_access, pageableMemoryAccess);
SAME_START(cooperative_launch, cooperativeLaunch);
SAME_START(shared_per_block_optin, sharedMemPerBlockOptin);
SAME_START(shared_reserved_per_block, reservedSharedMemPerBlock);
SAME_START(tail, hostRegisterSupported);
SAME_START(reserved, reserved2);

int main(void)
{
    printf("the layout of CUDA 12's device properties agrees with its header\n");
    return 0;
}

#else

int main(void)
{
    printf("skipped: there is no cuda_runtime_api.h of CUDA 12 or later\n");
    return 77;
}

#endif
