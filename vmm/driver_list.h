/* driver_list.h - every entry point of the driver that pleat knows, once.
 *
 * X(field, symbol, need, params, args): `field` names the table's pointer and the statistics'
 * counter, and `symbol` is the exported name. `need` is REQUIRED or OPTIONAL. `params` and `args`
 * are the parenthesised parameter and argument lists. The loader, the counting wrappers, the JSON
 * output and the simulator's prototypes all expand this list. */
#ifndef PLEAT_VMM_DRIVER_LIST_H
#define PLEAT_VMM_DRIVER_LIST_H

#include "vmm/driver_abi.h"

/* clang-format off */
#define PL_DRIVER_LIST(X) \
    X(init, cuInit, REQUIRED, (unsigned flags), (flags)) \
    X(driver_version, cuDriverGetVersion, REQUIRED, (int *version), (version)) \
    X(device_count, cuDeviceGetCount, REQUIRED, (int *count), (count)) \
    X(device_get, cuDeviceGet, REQUIRED, (cu_device *dev, int ordinal), (dev, ordinal)) \
    X(device_name, cuDeviceGetName, REQUIRED, \
      (char *name, int len, cu_device dev), (name, len, dev)) \
    X(device_attribute, cuDeviceGetAttribute, REQUIRED, \
      (int *value, int attribute, cu_device dev), (value, attribute, dev)) \
    X(device_total_mem, cuDeviceTotalMem_v2, REQUIRED, \
      (size_t *bytes, cu_device dev), (bytes, dev)) \
    X(device_can_access, cuDeviceCanAccessPeer, OPTIONAL, \
      (int *can, cu_device dev, cu_device peer), (can, dev, peer)) \
    X(primary_retain, cuDevicePrimaryCtxRetain, REQUIRED, \
      (cu_context *ctx, cu_device dev), (ctx, dev)) \
    X(primary_release, cuDevicePrimaryCtxRelease_v2, REQUIRED, (cu_device dev), (dev)) \
    X(primary_state, cuDevicePrimaryCtxGetState, OPTIONAL, \
      (cu_device dev, unsigned *flags, int *is_active), (dev, flags, is_active)) \
    X(ctx_push, cuCtxPushCurrent_v2, REQUIRED, (cu_context ctx), (ctx)) \
    X(ctx_pop, cuCtxPopCurrent_v2, REQUIRED, (cu_context *ctx), (ctx)) \
    X(ctx_get_current, cuCtxGetCurrent, REQUIRED, (cu_context *ctx), (ctx)) \
    X(ctx_get_device, cuCtxGetDevice, REQUIRED, (cu_device *dev), (dev)) \
    X(ctx_record_event, cuCtxRecordEvent, OPTIONAL, \
      (cu_context ctx, cu_event event), (ctx, event)) \
    X(mem_get_info, cuMemGetInfo_v2, REQUIRED, \
      (size_t *free_bytes, size_t *total_bytes), (free_bytes, total_bytes)) \
    X(mem_alloc, cuMemAlloc_v2, REQUIRED, (cu_devptr *ptr, size_t bytes), (ptr, bytes)) \
    X(mem_free, cuMemFree_v2, REQUIRED, (cu_devptr ptr), (ptr)) \
    X(host_alloc, cuMemHostAlloc, OPTIONAL, \
      (void **out, size_t bytes, unsigned flags), (out, bytes, flags)) \
    X(host_free, cuMemFreeHost, OPTIONAL, (void *ptr), (ptr)) \
    X(mem_alloc_async, cuMemAllocAsync, OPTIONAL, \
      (cu_devptr *ptr, size_t bytes, cu_stream stream), (ptr, bytes, stream)) \
    X(mem_free_async, cuMemFreeAsync, OPTIONAL, \
      (cu_devptr ptr, cu_stream stream), (ptr, stream)) \
    X(pool_default, cuDeviceGetDefaultMemPool, OPTIONAL, \
      (cu_mempool *pool, cu_device dev), (pool, dev)) \
    X(pool_create, cuMemPoolCreate, OPTIONAL, \
      (cu_mempool *pool, const cu_mempool_props *props), (pool, props)) \
    X(pool_destroy, cuMemPoolDestroy, OPTIONAL, (cu_mempool pool), (pool)) \
    X(pool_set, cuMemPoolSetAttribute, OPTIONAL, \
      (cu_mempool pool, int attribute, void *value), (pool, attribute, value)) \
    X(pool_get, cuMemPoolGetAttribute, OPTIONAL, \
      (cu_mempool pool, int attribute, void *value), (pool, attribute, value)) \
    X(pool_set_access, cuMemPoolSetAccess, OPTIONAL, \
      (cu_mempool pool, const cu_access_desc *desc, size_t count), (pool, desc, count)) \
    X(pool_trim, cuMemPoolTrimTo, OPTIONAL, \
      (cu_mempool pool, size_t keep_bytes), (pool, keep_bytes)) \
    X(pool_alloc_async, cuMemAllocFromPoolAsync, OPTIONAL, \
      (cu_devptr *ptr, size_t bytes, cu_mempool pool, cu_stream stream), \
      (ptr, bytes, pool, stream)) \
    X(address_reserve, cuMemAddressReserve, OPTIONAL, \
      (cu_devptr *ptr, size_t bytes, size_t alignment, cu_devptr hint, \
       unsigned long long flags), \
      (ptr, bytes, alignment, hint, flags)) \
    X(address_free, cuMemAddressFree, OPTIONAL, (cu_devptr ptr, size_t bytes), (ptr, bytes)) \
    X(mem_create, cuMemCreate, OPTIONAL, \
      (cu_mem_handle *handle, size_t bytes, const cu_mem_prop *prop, unsigned long long flags), \
      (handle, bytes, prop, flags)) \
    X(mem_release, cuMemRelease, OPTIONAL, (cu_mem_handle handle), (handle)) \
    X(mem_map, cuMemMap, OPTIONAL, \
      (cu_devptr ptr, size_t bytes, size_t offset, cu_mem_handle handle, \
       unsigned long long flags), \
      (ptr, bytes, offset, handle, flags)) \
    X(mem_unmap, cuMemUnmap, OPTIONAL, (cu_devptr ptr, size_t bytes), (ptr, bytes)) \
    X(mem_set_access, cuMemSetAccess, OPTIONAL, \
      (cu_devptr ptr, size_t bytes, const cu_access_desc *desc, size_t count), \
      (ptr, bytes, desc, count)) \
    X(mem_get_access, cuMemGetAccess, OPTIONAL, \
      (unsigned long long *flags, const cu_mem_location *location, cu_devptr ptr), \
      (flags, location, ptr)) \
    X(mem_granularity, cuMemGetAllocationGranularity, OPTIONAL, \
      (size_t *bytes, const cu_mem_prop *prop, int option), (bytes, prop, option)) \
    X(mem_retain_handle, cuMemRetainAllocationHandle, OPTIONAL, \
      (cu_mem_handle *handle, void *address), (handle, address)) \
    X(mem_handle_prop, cuMemGetAllocationPropertiesFromHandle, OPTIONAL, \
      (cu_mem_prop *prop, cu_mem_handle handle), (prop, handle)) \
    X(mem_export, cuMemExportToShareableHandle, OPTIONAL, \
      (void *shareable, cu_mem_handle handle, int handle_type, unsigned long long flags), \
      (shareable, handle, handle_type, flags)) \
    X(mem_import, cuMemImportFromShareableHandle, OPTIONAL, \
      (cu_mem_handle *handle, void *os_handle, int handle_type), \
      (handle, os_handle, handle_type)) \
    X(mem_address_range, cuMemGetAddressRange_v2, OPTIONAL, \
      (cu_devptr *base, size_t *bytes, cu_devptr ptr), (base, bytes, ptr)) \
    X(memset_async, cuMemsetD8Async, REQUIRED, \
      (cu_devptr ptr, unsigned char value, size_t bytes, cu_stream stream), \
      (ptr, value, bytes, stream)) \
    X(memcpy_dtoh_async, cuMemcpyDtoHAsync_v2, REQUIRED, \
      (void *to, cu_devptr from, size_t bytes, cu_stream stream), (to, from, bytes, stream)) \
    X(memcpy_htod_async, cuMemcpyHtoDAsync_v2, REQUIRED, \
      (cu_devptr to, const void *from, size_t bytes, cu_stream stream), \
      (to, from, bytes, stream)) \
    X(memcpy_dtod_async, cuMemcpyDtoDAsync_v2, OPTIONAL, \
      (cu_devptr to, cu_devptr from, size_t bytes, cu_stream stream), (to, from, bytes, stream)) \
    X(stream_create, cuStreamCreate, REQUIRED, \
      (cu_stream *stream, unsigned flags), (stream, flags)) \
    X(stream_destroy, cuStreamDestroy_v2, REQUIRED, (cu_stream stream), (stream)) \
    X(stream_id, cuStreamGetId, OPTIONAL, \
      (cu_stream stream, unsigned long long *id), (stream, id)) \
    X(stream_ctx, cuStreamGetCtx, REQUIRED, (cu_stream stream, cu_context *ctx), (stream, ctx)) \
    X(stream_green, cuStreamGetCtx_v2, OPTIONAL, \
      (cu_stream stream, cu_context *ctx, cu_green_ctx *green), (stream, ctx, green)) \
    X(stream_query, cuStreamQuery, REQUIRED, (cu_stream stream), (stream)) \
    X(stream_synchronize, cuStreamSynchronize, REQUIRED, (cu_stream stream), (stream)) \
    X(stream_wait_event, cuStreamWaitEvent, REQUIRED, \
      (cu_stream stream, cu_event event, unsigned flags), (stream, event, flags)) \
    X(stream_is_capturing, cuStreamIsCapturing, REQUIRED, \
      (cu_stream stream, int *status), (stream, status)) \
    X(stream_capture_info, cuStreamGetCaptureInfo_v2, OPTIONAL, \
      (cu_stream stream, int *status, unsigned long long *id, cu_graph *graph, \
       const cu_graph_node **deps, size_t *n_deps), \
      (stream, status, id, graph, deps, n_deps)) \
    X(stream_begin_capture, cuStreamBeginCapture_v2, REQUIRED, \
      (cu_stream stream, int mode), (stream, mode)) \
    X(stream_end_capture, cuStreamEndCapture, REQUIRED, \
      (cu_stream stream, cu_graph *graph), (stream, graph)) \
    X(thread_capture_mode, cuThreadExchangeStreamCaptureMode, REQUIRED, (int *mode), (mode)) \
    X(stream_write64, cuStreamWriteValue64_v2, OPTIONAL, \
      (cu_stream stream, cu_devptr ptr, uint64_t value, unsigned flags), \
      (stream, ptr, value, flags)) \
    X(event_create, cuEventCreate, REQUIRED, (cu_event *event, unsigned flags), (event, flags)) \
    X(event_record, cuEventRecord, REQUIRED, \
      (cu_event event, cu_stream stream), (event, stream)) \
    X(event_query, cuEventQuery, REQUIRED, (cu_event event), (event)) \
    X(event_synchronize, cuEventSynchronize, REQUIRED, (cu_event event), (event)) \
    X(event_elapsed, cuEventElapsedTime, REQUIRED, \
      (float *milliseconds, cu_event start, cu_event end), (milliseconds, start, end)) \
    X(event_destroy, cuEventDestroy_v2, REQUIRED, (cu_event event), (event)) \
    X(graph_destroy, cuGraphDestroy, REQUIRED, (cu_graph graph), (graph)) \
    X(graph_instantiate, cuGraphInstantiateWithFlags, OPTIONAL, \
      (cu_graph_exec *exec, cu_graph graph, unsigned long long flags), (exec, graph, flags)) \
    X(graph_launch, cuGraphLaunch, OPTIONAL, \
      (cu_graph_exec exec, cu_stream stream), (exec, stream)) \
    X(graph_exec_destroy, cuGraphExecDestroy, OPTIONAL, (cu_graph_exec exec), (exec)) \
    X(user_object_create, cuUserObjectCreate, OPTIONAL, \
      (cu_user_object *object, void *ptr, cu_host_fn destroy, unsigned n, unsigned flags), \
      (object, ptr, destroy, n, flags)) \
    X(user_object_retain, cuUserObjectRetain, OPTIONAL, \
      (cu_user_object object, unsigned n), (object, n)) \
    X(user_object_release, cuUserObjectRelease, OPTIONAL, \
      (cu_user_object object, unsigned n), (object, n)) \
    X(graph_retain_user_object, cuGraphRetainUserObject, OPTIONAL, \
      (cu_graph graph, cu_user_object object, unsigned n, unsigned flags), \
      (graph, object, n, flags)) \
    X(graph_release_user_object, cuGraphReleaseUserObject, OPTIONAL, \
      (cu_graph graph, cu_user_object object, unsigned n), (graph, object, n)) \
    X(error_name, cuGetErrorName, REQUIRED, (cu_result error, const char **name), (error, name)) \
    X(error_string, cuGetErrorString, REQUIRED, \
      (cu_result error, const char **text), (error, text))
/* clang-format on */

#endif
