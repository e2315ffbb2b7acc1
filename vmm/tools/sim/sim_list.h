/* sim_list.h - every entry point of the simulated driver. Some are called by pleat, some only by
 * other programs on the simulator (docs/simulator.md), and one takes no arguments, so it does not
 * fit pleat's wrappers. Form: driver_list.h. */
#ifndef PLEAT_SIM_LIST_H
#define PLEAT_SIM_LIST_H

#include "vmm/driver_list.h"

/* A handle for other processes, of memory or of an event. */
typedef struct cu_ipc_handle {
    char reserved[64];
} cu_ipc_handle;

/* A green context's part of the device: multiprocessors, as of CUDA 12.4 to 13.0. */
typedef struct cu_dev_resource {
    int type;
    unsigned char reserved[92];
    unsigned n_multiprocessors;
    unsigned char further[44];
} cu_dev_resource;
typedef struct cu_dev_resource_desc_st *cu_dev_resource_desc;

/* clang-format off */
#define SIM_FURTHER_LIST(X) \
    X(proc_address, cuGetProcAddress_v2, OPTIONAL, \
      (const char *symbol, void **out, int version, uint64_t flags, int *status), \
      (symbol, out, version, flags, status)) \
    X(ctx_create, cuCtxCreate_v2, OPTIONAL, \
      (cu_context *ctx, unsigned flags, cu_device dev), (ctx, flags, dev)) \
    X(ctx_destroy, cuCtxDestroy_v2, OPTIONAL, (cu_context ctx), (ctx)) \
    X(ctx_set_current, cuCtxSetCurrent, OPTIONAL, (cu_context ctx), (ctx)) \
    X(ctx_synchronize, cuCtxSynchronize, OPTIONAL, (void), ()) \
    X(device_resource, cuDeviceGetDevResource, OPTIONAL, \
      (cu_device dev, cu_dev_resource *resource, int type), (dev, resource, type)) \
    X(resource_split, cuDevSmResourceSplitByCount, OPTIONAL, \
      (cu_dev_resource *groups, unsigned *n, const cu_dev_resource *input, \
       cu_dev_resource *rest, unsigned flags, unsigned least), \
      (groups, n, input, rest, flags, least)) \
    X(resource_describe, cuDevResourceGenerateDesc, OPTIONAL, \
      (cu_dev_resource_desc *desc, cu_dev_resource *resources, unsigned n), \
      (desc, resources, n)) \
    X(green_create, cuGreenCtxCreate, OPTIONAL, \
      (cu_green_ctx *green, cu_dev_resource_desc desc, cu_device dev, unsigned flags), \
      (green, desc, dev, flags)) \
    X(green_destroy, cuGreenCtxDestroy, OPTIONAL, (cu_green_ctx green), (green)) \
    X(green_context, cuCtxFromGreenCtx, OPTIONAL, \
      (cu_context *ctx, cu_green_ctx green), (ctx, green)) \
    X(green_resource, cuGreenCtxGetDevResource, OPTIONAL, \
      (cu_green_ctx green, cu_dev_resource *resource, int type), (green, resource, type)) \
    X(green_stream, cuGreenCtxStreamCreate, OPTIONAL, \
      (cu_stream *stream, cu_green_ctx green, unsigned flags, int priority), \
      (stream, green, flags, priority)) \
    X(green_record, cuGreenCtxRecordEvent, OPTIONAL, \
      (cu_green_ctx green, cu_event event), (green, event)) \
    X(stream_get_green, cuStreamGetGreenCtx, OPTIONAL, \
      (cu_stream stream, cu_green_ctx *green), (stream, green)) \
    X(memset, cuMemsetD8_v2, OPTIONAL, \
      (cu_devptr ptr, unsigned char value, size_t bytes), (ptr, value, bytes)) \
    X(memcpy_htod, cuMemcpyHtoD_v2, OPTIONAL, \
      (cu_devptr to, const void *from, size_t bytes), (to, from, bytes)) \
    X(memcpy_dtoh, cuMemcpyDtoH_v2, OPTIONAL, \
      (void *to, cu_devptr from, size_t bytes), (to, from, bytes)) \
    X(memcpy_dtod, cuMemcpyDtoD_v2, OPTIONAL, \
      (cu_devptr to, cu_devptr from, size_t bytes), (to, from, bytes)) \
    X(stream_write32, cuStreamWriteValue32_v2, OPTIONAL, \
      (cu_stream stream, cu_devptr ptr, uint32_t value, unsigned flags), \
      (stream, ptr, value, flags)) \
    X(stream_wait32, cuStreamWaitValue32_v2, OPTIONAL, \
      (cu_stream stream, cu_devptr ptr, uint32_t value, unsigned flags), \
      (stream, ptr, value, flags)) \
    X(stream_wait64, cuStreamWaitValue64_v2, OPTIONAL, \
      (cu_stream stream, cu_devptr ptr, uint64_t value, unsigned flags), \
      (stream, ptr, value, flags)) \
    X(stream_batch, cuStreamBatchMemOp_v2, OPTIONAL, \
      (cu_stream stream, unsigned n, void *operations, unsigned flags), \
      (stream, n, operations, flags)) \
    X(range_handle, cuMemGetHandleForAddressRange, OPTIONAL, \
      (void *handle, cu_devptr ptr, size_t bytes, int type, unsigned long long flags), \
      (handle, ptr, bytes, type, flags)) \
    X(multicast_create, cuMulticastCreate, OPTIONAL, \
      (cu_mem_handle *group, const void *prop), (group, prop)) \
    X(multicast_add, cuMulticastAddDevice, OPTIONAL, \
      (cu_mem_handle group, cu_device dev), (group, dev)) \
    X(multicast_bind_mem, cuMulticastBindMem, OPTIONAL, \
      (cu_mem_handle group, size_t offset, cu_mem_handle handle, size_t handle_offset, \
       size_t bytes, unsigned long long flags), \
      (group, offset, handle, handle_offset, bytes, flags)) \
    X(multicast_bind_addr, cuMulticastBindAddr, OPTIONAL, \
      (cu_mem_handle group, size_t offset, cu_devptr ptr, size_t bytes, \
       unsigned long long flags), \
      (group, offset, ptr, bytes, flags)) \
    X(multicast_unbind, cuMulticastUnbind, OPTIONAL, \
      (cu_mem_handle group, cu_device dev, size_t offset, size_t bytes), \
      (group, dev, offset, bytes)) \
    X(multicast_granularity, cuMulticastGetGranularity, OPTIONAL, \
      (size_t *bytes, const void *prop, int option), (bytes, prop, option)) \
    X(priority_range, cuCtxGetStreamPriorityRange, OPTIONAL, \
      (int *least, int *greatest), (least, greatest)) \
    X(stream_create_priority, cuStreamCreateWithPriority, OPTIONAL, \
      (cu_stream *stream, unsigned flags, int priority), (stream, flags, priority)) \
    X(stream_priority, cuStreamGetPriority, OPTIONAL, \
      (cu_stream stream, int *priority), (stream, priority)) \
    X(stream_flags, cuStreamGetFlags, OPTIONAL, \
      (cu_stream stream, unsigned *flags), (stream, flags)) \
    X(mem_alloc_host, cuMemAllocHost_v2, OPTIONAL, (void **out, size_t bytes), (out, bytes)) \
    X(host_register, cuMemHostRegister_v2, OPTIONAL, \
      (void *ptr, size_t bytes, unsigned flags), (ptr, bytes, flags)) \
    X(host_unregister, cuMemHostUnregister, OPTIONAL, (void *ptr), (ptr)) \
    X(host_pointer, cuMemHostGetDevicePointer_v2, OPTIONAL, \
      (cu_devptr *ptr, void *host, unsigned flags), (ptr, host, flags)) \
    X(mem_alloc_managed, cuMemAllocManaged, OPTIONAL, \
      (cu_devptr *ptr, size_t bytes, unsigned flags), (ptr, bytes, flags)) \
    X(graph_get_nodes, cuGraphGetNodes, OPTIONAL, \
      (cu_graph graph, cu_graph_node *nodes, size_t *n), (graph, nodes, n)) \
    X(ipc_mem_get, cuIpcGetMemHandle, OPTIONAL, (cu_ipc_handle *handle, cu_devptr ptr), \
      (handle, ptr)) \
    X(ipc_mem_open, cuIpcOpenMemHandle_v2, OPTIONAL, \
      (cu_devptr *ptr, cu_ipc_handle handle, unsigned flags), (ptr, handle, flags)) \
    X(ipc_mem_close, cuIpcCloseMemHandle, OPTIONAL, (cu_devptr ptr), (ptr)) \
    X(ipc_event_get, cuIpcGetEventHandle, OPTIONAL, (cu_ipc_handle *handle, cu_event event), \
      (handle, event)) \
    X(ipc_event_open, cuIpcOpenEventHandle, OPTIONAL, (cu_event *event, cu_ipc_handle handle), \
      (event, handle)) \
    X(pointer_attribute, cuPointerGetAttribute, OPTIONAL, \
      (void *value, int attribute, cu_devptr ptr), (value, attribute, ptr))
/* clang-format on */

#define SIM_LIST(X) PL_DRIVER_LIST(X) SIM_FURTHER_LIST(X)

#endif
