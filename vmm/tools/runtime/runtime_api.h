/* runtime_api.h - the exports of libpleat_runtime.so. They are the calls of the CUDA runtime that
 * PyTorch makes, the driver's entry points missing from the simulator, and the matrix library's
 * (blas_list.h lists the many compute-only calls).
 *
 * Source: the undefined symbols of PyTorch 2.11's libraries (CUDA 13) and 2.6's (CUDA 12.4).
 * tests/python/torch_on_sim/ checks that none is missing. */
#ifndef PLEAT_RUNTIME_API_H
#define PLEAT_RUNTIME_API_H

#include "vmm/tools/runtime/runtime_abi.h"

#define RT_EXPORT __attribute__((visibility("default")))
#define RT_UNPAREN(...) __VA_ARGS__

/* The simulator's entry points, linked directly. */
#define RT_DRIVER_PROTOTYPE(field, symbol, need, params, args) cu_result symbol(RT_UNPAREN params);
SIM_LIST(RT_DRIVER_PROTOTYPE)
#undef RT_DRIVER_PROTOTYPE

/* errors */
RT_EXPORT rt_error cudaGetLastError(void);
RT_EXPORT rt_error cudaPeekAtLastError(void);
RT_EXPORT const char *cudaGetErrorName(rt_error error);
RT_EXPORT const char *cudaGetErrorString(rt_error error);

/* devices */
RT_EXPORT rt_error cudaDriverGetVersion(int *version);
RT_EXPORT rt_error cudaRuntimeGetVersion(int *version);
RT_EXPORT rt_error cudaGetDeviceCount(int *count);
RT_EXPORT rt_error cudaGetDevice(int *device);
RT_EXPORT rt_error cudaSetDevice(int device);
RT_EXPORT rt_error cudaDeviceSynchronize(void);
RT_EXPORT rt_error cudaDeviceGetAttribute(int *value, int attribute, int device);
RT_EXPORT rt_error cudaGetDeviceProperties(rt_device_prop *prop, int device);
RT_EXPORT rt_error cudaDeviceGetPCIBusId(char *text, int n, int device);
RT_EXPORT rt_error cudaDeviceCanAccessPeer(int *can, int device, int peer);
RT_EXPORT rt_error cudaDeviceEnablePeerAccess(int peer, unsigned flags);
RT_EXPORT rt_error cudaDeviceGetStreamPriorityRange(int *least, int *greatest);
RT_EXPORT rt_error cudaProfilerStart(void);
RT_EXPORT rt_error cudaProfilerStop(void);
RT_EXPORT rt_error cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned version,
                                                    unsigned long long flags, int *status);

/* memory */
RT_EXPORT rt_error cudaMalloc(void **out, size_t bytes);
RT_EXPORT rt_error cudaFree(void *ptr);
RT_EXPORT rt_error cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes);
RT_EXPORT rt_error cudaHostAlloc(void **out, size_t bytes, unsigned flags);
RT_EXPORT rt_error cudaFreeHost(void *ptr);
RT_EXPORT rt_error cudaHostRegister(void *ptr, size_t bytes, unsigned flags);
RT_EXPORT rt_error cudaHostUnregister(void *ptr);
RT_EXPORT rt_error cudaMallocManaged(void **out, size_t bytes, unsigned flags);
RT_EXPORT rt_error cudaMemPrefetchAsync(const void *ptr); /* and arguments that are not read */
RT_EXPORT rt_error cudaMemPrefetchAsync_v2(const void *ptr);
RT_EXPORT rt_error cudaMemAdvise(const void *ptr, size_t bytes, int advice);
RT_EXPORT rt_error cudaMemAdvise_v2(const void *ptr, size_t bytes, int advice);
RT_EXPORT rt_error cudaPointerGetAttributes(rt_pointer_attributes *out, const void *ptr);
RT_EXPORT rt_error cudaIpcGetMemHandle(rt_ipc_handle *handle, void *ptr);
RT_EXPORT rt_error cudaIpcOpenMemHandle(void **ptr, rt_ipc_handle handle, unsigned flags);
RT_EXPORT rt_error cudaIpcCloseMemHandle(void *ptr);
RT_EXPORT rt_error cudaIpcGetEventHandle(rt_ipc_handle *handle, cu_event event);
RT_EXPORT rt_error cudaIpcOpenEventHandle(cu_event *event, rt_ipc_handle handle);

/* pools */
RT_EXPORT rt_error cudaMallocAsync(void **out, size_t bytes, cu_stream stream);
RT_EXPORT rt_error cudaFreeAsync(void *ptr, cu_stream stream);
RT_EXPORT rt_error cudaDeviceGetDefaultMemPool(cu_mempool *pool, int device);
RT_EXPORT rt_error cudaMemPoolGetAttribute(cu_mempool pool, int attribute, void *value);
RT_EXPORT rt_error cudaMemPoolSetAttribute(cu_mempool pool, int attribute, void *value);
RT_EXPORT rt_error cudaMemPoolSetAccess(cu_mempool pool, const cu_access_desc *desc, size_t n);
RT_EXPORT rt_error cudaMemPoolTrimTo(cu_mempool pool, size_t keep_bytes);

RT_EXPORT rt_error cudaDeviceGetMemPool(cu_mempool *pool, int device);
RT_EXPORT rt_error cudaDeviceSetMemPool(int device, cu_mempool pool);
RT_EXPORT rt_error cudaMallocFromPoolAsync(void **out, size_t bytes, cu_mempool pool,
                                           cu_stream stream);
RT_EXPORT rt_error cudaMemPoolCreate(cu_mempool *pool, const cu_mempool_props *props);
RT_EXPORT rt_error cudaMemPoolDestroy(cu_mempool pool);

/* copies */
RT_EXPORT rt_error cudaMemcpy(void *to, const void *from, size_t bytes, int direction);
RT_EXPORT rt_error cudaMemcpyAsync(void *to, const void *from, size_t bytes, int direction,
                                   cu_stream stream);
RT_EXPORT rt_error cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                                       size_t bytes, cu_stream stream);
RT_EXPORT rt_error cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                                     size_t width, size_t height, int direction, cu_stream stream);
RT_EXPORT rt_error cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device,
                                  size_t bytes);
RT_EXPORT rt_error cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                                size_t width, size_t height, int direction);
RT_EXPORT rt_error cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes,
                                      size_t offset, int direction);
RT_EXPORT rt_error cudaGetSymbolAddress(void **out, const void *symbol);
RT_EXPORT rt_error cudaMemset(void *ptr, int value, size_t bytes);
RT_EXPORT rt_error cudaMemsetAsync(void *ptr, int value, size_t bytes, cu_stream stream);

/* streams and events */
RT_EXPORT rt_error cudaStreamCreate(cu_stream *stream);
RT_EXPORT rt_error cudaStreamCreateWithPriority(cu_stream *stream, unsigned flags, int priority);
RT_EXPORT rt_error cudaStreamDestroy(cu_stream stream);
RT_EXPORT rt_error cudaStreamGetPriority(cu_stream stream, int *priority);
RT_EXPORT rt_error cudaStreamGetFlags(cu_stream stream, unsigned *flags);
RT_EXPORT rt_error cudaStreamGetId(cu_stream stream, unsigned long long *id);
RT_EXPORT rt_error cudaStreamQuery(cu_stream stream);
RT_EXPORT rt_error cudaStreamSynchronize(cu_stream stream);
RT_EXPORT rt_error cudaStreamWaitEvent(cu_stream stream, cu_event event, unsigned flags);
RT_EXPORT rt_error cudaStreamAddCallback(cu_stream stream, rt_stream_callback callback, void *user,
                                         unsigned flags);
RT_EXPORT rt_error cudaLaunchHostFunc(cu_stream stream, rt_host_fn fn, void *user);
RT_EXPORT rt_error cudaEventCreate(cu_event *event);
RT_EXPORT rt_error cudaEventCreateWithFlags(cu_event *event, unsigned flags);
RT_EXPORT rt_error cudaEventDestroy(cu_event event);
RT_EXPORT rt_error cudaEventRecord(cu_event event, cu_stream stream);
RT_EXPORT rt_error cudaEventRecordWithFlags(cu_event event, cu_stream stream, unsigned flags);
RT_EXPORT rt_error cudaEventQuery(cu_event event);
RT_EXPORT rt_error cudaEventSynchronize(cu_event event);
RT_EXPORT rt_error cudaEventElapsedTime(float *milliseconds, cu_event start, cu_event end);

/* captures and graphs */
RT_EXPORT rt_error cudaStreamBeginCapture(cu_stream stream, int mode);
RT_EXPORT rt_error cudaStreamEndCapture(cu_stream stream, cu_graph *graph);
RT_EXPORT rt_error cudaStreamIsCapturing(cu_stream stream, int *status);
RT_EXPORT rt_error cudaStreamGetCaptureInfo(cu_stream stream, int *status, unsigned long long *id,
                                            cu_graph *graph, const cu_graph_node **deps,
                                            const void **edges, size_t *n_deps);
RT_EXPORT rt_error cudaThreadExchangeStreamCaptureMode(int *mode);
RT_EXPORT rt_error cudaGraphInstantiateWithFlags(cu_graph_exec *exec, cu_graph graph,
                                                 unsigned long long flags);
RT_EXPORT rt_error cudaGraphLaunch(cu_graph_exec exec, cu_stream stream);
RT_EXPORT rt_error cudaGraphDestroy(cu_graph graph);
RT_EXPORT rt_error cudaGraphExecDestroy(cu_graph_exec exec);
RT_EXPORT rt_error cudaGraphGetNodes(cu_graph graph, cu_graph_node *nodes, size_t *n);
RT_EXPORT rt_error cudaGraphNodeGetDependencies(cu_graph_node node, cu_graph_node *deps,
                                                void *edges, size_t *n);
RT_EXPORT rt_error cudaGraphDebugDotPrint(cu_graph graph, const char *path, unsigned flags);

/* kernels */
RT_EXPORT rt_error cudaLaunchKernel(const void *func, rt_dim3 grid, rt_dim3 block, void **args,
                                    size_t shared_bytes, cu_stream stream);
RT_EXPORT rt_error cudaLaunchKernelExC(const rt_launch_config *config, const void *func,
                                       void **args);
RT_EXPORT rt_error cudaLaunchCooperativeKernel(const void *func, rt_dim3 grid, rt_dim3 block,
                                               void **args, size_t shared_bytes, cu_stream stream);
RT_EXPORT rt_error __cudaLaunchKernel(void *kernel, rt_dim3 grid, rt_dim3 block, void **args,
                                      size_t shared_bytes, cu_stream stream);
RT_EXPORT rt_error __cudaGetKernel(void **kernel, const void *func);
RT_EXPORT unsigned __cudaPushCallConfiguration(rt_dim3 grid, rt_dim3 block, size_t shared_bytes,
                                               cu_stream stream);
RT_EXPORT rt_error __cudaPopCallConfiguration(rt_dim3 *grid, rt_dim3 *block, size_t *shared_bytes,
                                              void *stream);
RT_EXPORT rt_error cudaFuncGetAttributes(rt_func_attributes *out, const void *func);
RT_EXPORT rt_error cudaFuncSetAttribute(const void *func, int attribute, int value);
RT_EXPORT rt_error cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, const void *func,
                                                                 int block_size,
                                                                 size_t shared_bytes);
RT_EXPORT rt_error cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, const void *func,
                                                                          int block_size,
                                                                          size_t shared_bytes,
                                                                          unsigned flags);

/* registration of compiled kernels when their library is loaded */
RT_EXPORT void **__cudaRegisterFatBinary(void *binary);
RT_EXPORT void __cudaRegisterFatBinaryEnd(void **handle);
RT_EXPORT void __cudaUnregisterFatBinary(void **handle);
RT_EXPORT void __cudaRegisterFunction(void **handle, const char *func, char *device_func,
                                      const char *name, int limit, void *tid, void *bid,
                                      rt_dim3 *block, rt_dim3 *grid, int *warp_size);
RT_EXPORT void __cudaRegisterVar(void **handle, char *var, char *device_var, const char *name,
                                 int is_extern, size_t bytes, int is_constant, int is_global);
RT_EXPORT char __cudaInitModule(void **handle);

/* Calls of CUDA 12 programs under older names, or with older parameters: older.c */
RT_EXPORT rt_error cudaEventElapsedTime_v2(float *milliseconds, cu_event start, cu_event end);
RT_EXPORT rt_error cudaGetDeviceProperties_v2(rt_device_prop_12 *prop, int device);
RT_EXPORT rt_error cudaGetDriverEntryPoint(const char *name, void **out, unsigned long long flags,
                                           int *status);
RT_EXPORT rt_error cudaGraphInstantiate(cu_graph_exec *exec, cu_graph graph,
                                        unsigned long long flags);
RT_EXPORT rt_error cudaHostGetDevicePointer(void **out, void *host, unsigned flags);
RT_EXPORT rt_error cudaStreamGetCaptureInfo_v2(cu_stream stream, int *status,
                                               unsigned long long *id, cu_graph *graph,
                                               const cu_graph_node **deps, size_t *n_deps);

/* The driver's entry points missing from the simulator. PyTorch's helper library for kernels
 * compiled at run time is linked with them. */
RT_EXPORT cu_result cuGetExportTable(const void **table, const void *id);
RT_EXPORT cu_result cuCtxSetCurrent(cu_context ctx);
RT_EXPORT cu_result cuLaunchKernel(void *func, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z,
                                   unsigned shared_bytes, cu_stream stream, void **args,
                                   void **extra);
RT_EXPORT cu_result cuLaunchCooperativeKernel(void *func, unsigned grid_x, unsigned grid_y,
                                              unsigned grid_z, unsigned block_x, unsigned block_y,
                                              unsigned block_z, unsigned shared_bytes,
                                              cu_stream stream, void **args);
RT_EXPORT cu_result cuModuleLoad(void **module, const char *path);
RT_EXPORT cu_result cuModuleLoadData(void **module, const void *image);
RT_EXPORT cu_result cuModuleLoadDataEx(void **module, const void *image, unsigned n, void *options,
                                       void **values);
RT_EXPORT cu_result cuModuleUnload(void *module);
RT_EXPORT cu_result cuModuleGetFunction(void **func, void *module, const char *name);
RT_EXPORT cu_result cuFuncGetAttribute(int *value, int attribute, void *func);
RT_EXPORT cu_result cuFuncSetAttribute(void *func, int attribute, int value);
RT_EXPORT cu_result cuFuncSetCacheConfig(void *func, int config);
RT_EXPORT cu_result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, void *func, int block_size,
                                                                size_t shared_bytes);
RT_EXPORT cu_result cuLinkCreate_v2(unsigned n, void *options, void **values, void **state);
RT_EXPORT cu_result cuLinkAddData_v2(void *state, int type, void *data, size_t bytes,
                                     const char *name, unsigned n, void *options, void **values);
RT_EXPORT cu_result cuLinkComplete(void *state, void **image, size_t *bytes);
RT_EXPORT cu_result cuTensorMapEncodeTiled(void *map);
RT_EXPORT cu_result cuMemsetD32Async(cu_devptr ptr, unsigned value, size_t n, cu_stream stream);
RT_EXPORT cu_result cuStreamWriteValue32(cu_stream stream, cu_devptr ptr, uint32_t value,
                                         unsigned flags); /* PyTorch 2.6 asks for this name */

/* The matrix library, with handles, modes, and its light sister. Every other call computes. */
RT_EXPORT int cublasCreate_v2(void **handle);
RT_EXPORT int cublasDestroy_v2(void *handle);
RT_EXPORT int cublasSetStream_v2(void *handle, cu_stream stream);
RT_EXPORT int cublasSetWorkspace_v2(void *handle, void *workspace, size_t bytes);
RT_EXPORT int cublasSetSmCountTarget(void *handle, int n_multiprocessors);
RT_EXPORT int cublasGetMathMode(void *handle, int *mode);
RT_EXPORT int cublasSetMathMode(void *handle, int mode);
RT_EXPORT int cublasGetPointerMode_v2(void *handle, int *mode);
RT_EXPORT int cublasSetPointerMode_v2(void *handle, int mode);
RT_EXPORT size_t cublasLtGetVersion(void);
RT_EXPORT int cublasLtMatmulDescCreate(void **desc, int compute_type, int scale_type);
RT_EXPORT int cublasLtMatmulDescDestroy(void *desc);
RT_EXPORT int cublasLtMatmulDescSetAttribute(void *desc, int attribute, const void *value,
                                             size_t bytes);
RT_EXPORT int cublasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t cols,
                                         int64_t ld);
RT_EXPORT int cublasLtMatrixLayoutDestroy(void *layout);
RT_EXPORT int cublasLtMatrixLayoutSetAttribute(void *layout, int attribute, const void *value,
                                               size_t bytes);
RT_EXPORT int cublasLtMatmulPreferenceCreate(void **preference);
RT_EXPORT int cublasLtMatmulPreferenceDestroy(void *preference);
RT_EXPORT int cublasLtMatmulPreferenceSetAttribute(void *preference, int attribute,
                                                   const void *value, size_t bytes);
RT_EXPORT int cublasLtMatmulAlgoGetHeuristic(void *handle, void *desc, void *a, void *b, void *c,
                                             void *d, void *preference, int n,
                                             rt_lt_heuristic *results, int *n_results);
RT_EXPORT int cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *a,
                             void *a_layout, const void *b, void *b_layout, const void *beta,
                             const void *c, void *c_layout, void *d, void *d_layout,
                             const void *algo, void *workspace, size_t workspace_bytes,
                             cu_stream stream);

#endif
