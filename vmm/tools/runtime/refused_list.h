/* refused_list.h - the calls of the CUDA runtime that are not simulated, by name.
 *
 * Sorted; from the header cuda_runtime_api.h of CUDA 12.4 and 13.2, without what runtime_api.h
 * declares. A test compares the list with the installed header. */
#ifndef PLEAT_RUNTIME_REFUSED_LIST_H
#define PLEAT_RUNTIME_REFUSED_LIST_H

/* clang-format off */
#define RT_REFUSED_LIST(X) \
    X(cudaArrayGetInfo) X(cudaArrayGetMemoryRequirements) X(cudaArrayGetPlane) \
    X(cudaArrayGetSparseProperties) X(cudaChooseDevice) X(cudaCreateSurfaceObject) \
    X(cudaCreateTextureObject) X(cudaCtxResetPersistingL2Cache) X(cudaDestroyExternalMemory) \
    X(cudaDestroyExternalSemaphore) X(cudaDestroySurfaceObject) X(cudaDestroyTextureObject) \
    X(cudaDevResourceGenerateDesc) X(cudaDevSmResourceSplit) X(cudaDevSmResourceSplitByCount) \
    X(cudaDeviceDisablePeerAccess) X(cudaDeviceFlushGPUDirectRDMAWrites) \
    X(cudaDeviceGetByPCIBusId) X(cudaDeviceGetCacheConfig) X(cudaDeviceGetDevResource) \
    X(cudaDeviceGetExecutionCtx) X(cudaDeviceGetGraphMemAttribute) \
    X(cudaDeviceGetHostAtomicCapabilities) X(cudaDeviceGetLimit) \
    X(cudaDeviceGetNvSciSyncAttributes) X(cudaDeviceGetP2PAtomicCapabilities) \
    X(cudaDeviceGetP2PAttribute) X(cudaDeviceGetSharedMemConfig) \
    X(cudaDeviceGetTexture1DLinearMaxWidth) X(cudaDeviceGraphMemTrim) \
    X(cudaDeviceRegisterAsyncNotification) X(cudaDeviceReset) X(cudaDeviceSetCacheConfig) \
    X(cudaDeviceSetGraphMemAttribute) X(cudaDeviceSetLimit) \
    X(cudaDeviceSetSharedMemConfig) X(cudaDeviceUnregisterAsyncNotification) \
    X(cudaExecutionCtxDestroy) X(cudaExecutionCtxGetDevResource) X(cudaExecutionCtxGetDevice) \
    X(cudaExecutionCtxGetId) X(cudaExecutionCtxRecordEvent) X(cudaExecutionCtxStreamCreate) \
    X(cudaExecutionCtxSynchronize) X(cudaExecutionCtxWaitEvent) \
    X(cudaExternalMemoryGetMappedBuffer) X(cudaExternalMemoryGetMappedMipmappedArray) \
    X(cudaFreeArray) X(cudaFreeMipmappedArray) X(cudaFuncGetName) X(cudaFuncGetParamCount) \
    X(cudaFuncGetParamInfo) X(cudaFuncSetCacheConfig) X(cudaFuncSetSharedMemConfig) \
    X(cudaGetChannelDesc) X(cudaGetDeviceFlags) X(cudaGetFuncBySymbol) X(cudaGetKernel) \
    X(cudaGetMipmappedArrayLevel) X(cudaGetSurfaceObjectResourceDesc) X(cudaGetSymbolSize) \
    X(cudaGetTextureObjectResourceDesc) X(cudaGetTextureObjectResourceViewDesc) \
    X(cudaGetTextureObjectTextureDesc) X(cudaGraphAddChildGraphNode) X(cudaGraphAddDependencies) \
    X(cudaGraphAddDependencies_v2) X(cudaGraphAddEmptyNode) X(cudaGraphAddEventRecordNode) \
    X(cudaGraphAddEventWaitNode) X(cudaGraphAddExternalSemaphoresSignalNode) \
    X(cudaGraphAddExternalSemaphoresWaitNode) X(cudaGraphAddHostNode) X(cudaGraphAddKernelNode) \
    X(cudaGraphAddMemAllocNode) X(cudaGraphAddMemFreeNode) X(cudaGraphAddMemcpyNode) \
    X(cudaGraphAddMemcpyNode1D) X(cudaGraphAddMemcpyNodeFromSymbol) \
    X(cudaGraphAddMemcpyNodeToSymbol) X(cudaGraphAddMemsetNode) X(cudaGraphAddNode) \
    X(cudaGraphAddNode_v2) X(cudaGraphChildGraphNodeGetGraph) X(cudaGraphClone) \
    X(cudaGraphConditionalHandleCreate) X(cudaGraphConditionalHandleCreate_v2) \
    X(cudaGraphCreate) X(cudaGraphDestroyNode) X(cudaGraphEventRecordNodeGetEvent) \
    X(cudaGraphEventRecordNodeSetEvent) X(cudaGraphEventWaitNodeGetEvent) \
    X(cudaGraphEventWaitNodeSetEvent) X(cudaGraphExecChildGraphNodeSetParams) \
    X(cudaGraphExecEventRecordNodeSetEvent) X(cudaGraphExecEventWaitNodeSetEvent) \
    X(cudaGraphExecExternalSemaphoresSignalNodeSetParams) \
    X(cudaGraphExecExternalSemaphoresWaitNodeSetParams) X(cudaGraphExecGetFlags) \
    X(cudaGraphExecGetId) X(cudaGraphExecHostNodeSetParams) X(cudaGraphExecKernelNodeSetParams) \
    X(cudaGraphExecMemcpyNodeSetParams) X(cudaGraphExecMemcpyNodeSetParams1D) \
    X(cudaGraphExecMemcpyNodeSetParamsFromSymbol) X(cudaGraphExecMemcpyNodeSetParamsToSymbol) \
    X(cudaGraphExecMemsetNodeSetParams) X(cudaGraphExecNodeSetParams) X(cudaGraphExecUpdate) \
    X(cudaGraphExternalSemaphoresSignalNodeGetParams) \
    X(cudaGraphExternalSemaphoresSignalNodeSetParams) \
    X(cudaGraphExternalSemaphoresWaitNodeGetParams) \
    X(cudaGraphExternalSemaphoresWaitNodeSetParams) X(cudaGraphGetEdges) X(cudaGraphGetEdges_v2) \
    X(cudaGraphGetId) X(cudaGraphGetRootNodes) X(cudaGraphHostNodeGetParams) \
    X(cudaGraphHostNodeSetParams) X(cudaGraphInstantiateWithParams) \
    X(cudaGraphKernelNodeCopyAttributes) X(cudaGraphKernelNodeGetAttribute) \
    X(cudaGraphKernelNodeGetParams) X(cudaGraphKernelNodeSetAttribute) \
    X(cudaGraphKernelNodeSetParams) X(cudaGraphMemAllocNodeGetParams) \
    X(cudaGraphMemFreeNodeGetParams) X(cudaGraphMemcpyNodeGetParams) \
    X(cudaGraphMemcpyNodeSetParams) X(cudaGraphMemcpyNodeSetParams1D) \
    X(cudaGraphMemcpyNodeSetParamsFromSymbol) X(cudaGraphMemcpyNodeSetParamsToSymbol) \
    X(cudaGraphMemsetNodeGetParams) X(cudaGraphMemsetNodeSetParams) X(cudaGraphNodeFindInClone) \
    X(cudaGraphNodeGetContainingGraph) X(cudaGraphNodeGetDependencies_v2) \
    X(cudaGraphNodeGetDependentNodes) X(cudaGraphNodeGetDependentNodes_v2) \
    X(cudaGraphNodeGetEnabled) X(cudaGraphNodeGetLocalId) X(cudaGraphNodeGetParams) \
    X(cudaGraphNodeGetToolsId) X(cudaGraphNodeGetType) X(cudaGraphNodeSetEnabled) \
    X(cudaGraphNodeSetParams) X(cudaGraphReleaseUserObject) X(cudaGraphRemoveDependencies) \
    X(cudaGraphRemoveDependencies_v2) X(cudaGraphRetainUserObject) X(cudaGraphUpload) \
    X(cudaGraphicsMapResources) X(cudaGraphicsResourceGetMappedMipmappedArray) \
    X(cudaGraphicsResourceGetMappedPointer) X(cudaGraphicsResourceSetMapFlags) \
    X(cudaGraphicsSubResourceGetMappedArray) X(cudaGraphicsUnmapResources) \
    X(cudaGraphicsUnregisterResource) X(cudaGreenCtxCreate) X(cudaHostGetFlags) \
    X(cudaImportExternalMemory) X(cudaImportExternalSemaphore) X(cudaInitDevice) \
    X(cudaKernelSetAttributeForDevice) X(cudaLaunchCooperativeKernelMultiDevice) \
    X(cudaLaunchHostFunc_v2) X(cudaLibraryEnumerateKernels) X(cudaLibraryGetGlobal) \
    X(cudaLibraryGetKernel) X(cudaLibraryGetKernelCount) X(cudaLibraryGetManaged) \
    X(cudaLibraryGetUnifiedFunction) X(cudaLibraryLoadData) X(cudaLibraryLoadFromFile) \
    X(cudaLibraryUnload) X(cudaLogsCurrent) X(cudaLogsDumpToFile) X(cudaLogsDumpToMemory) \
    X(cudaLogsRegisterCallback) X(cudaLogsUnregisterCallback) X(cudaMalloc3D) \
    X(cudaMalloc3DArray) X(cudaMallocArray) X(cudaMallocMipmappedArray) \
    X(cudaMallocPitch) \
    X(cudaMemDiscardAndPrefetchBatchAsync) X(cudaMemDiscardBatchAsync) \
    X(cudaMemGetDefaultMemPool) X(cudaMemGetMemPool) X(cudaMemPoolExportPointer) \
    X(cudaMemPoolExportToShareableHandle) X(cudaMemPoolGetAccess) \
    X(cudaMemPoolImportFromShareableHandle) X(cudaMemPoolImportPointer) \
    X(cudaMemPrefetchBatchAsync) X(cudaMemRangeGetAttribute) \
    X(cudaMemRangeGetAttributes) X(cudaMemSetMemPool) X(cudaMemcpy2DArrayToArray) \
    X(cudaMemcpy2DFromArray) X(cudaMemcpy2DFromArrayAsync) X(cudaMemcpy2DToArray) \
    X(cudaMemcpy2DToArrayAsync) X(cudaMemcpy3D) X(cudaMemcpy3DAsync) X(cudaMemcpy3DBatchAsync) \
    X(cudaMemcpy3DPeer) X(cudaMemcpy3DPeerAsync) X(cudaMemcpy3DWithAttributesAsync) \
    X(cudaMemcpyArrayToArray) X(cudaMemcpyBatchAsync) X(cudaMemcpyFromArray) \
    X(cudaMemcpyFromArrayAsync) X(cudaMemcpyFromSymbol) X(cudaMemcpyFromSymbolAsync) \
    X(cudaMemcpyToArray) X(cudaMemcpyToArrayAsync) X(cudaMemcpyToSymbolAsync) \
    X(cudaMemcpyWithAttributesAsync) X(cudaMemset2D) X(cudaMemset2DAsync) X(cudaMemset3D) \
    X(cudaMemset3DAsync) X(cudaMipmappedArrayGetMemoryRequirements) \
    X(cudaMipmappedArrayGetSparseProperties) X(cudaOccupancyAvailableDynamicSMemPerBlock) \
    X(cudaOccupancyMaxActiveClusters) X(cudaOccupancyMaxPotentialClusterSize) \
    X(cudaSetDeviceFlags) X(cudaSetDoubleForDevice) X(cudaSetDoubleForHost) \
    X(cudaSetValidDevices) X(cudaSignalExternalSemaphoresAsync) \
    X(cudaSignalExternalSemaphoresAsync_ptsz) X(cudaSignalExternalSemaphoresAsync_v2) \
    X(cudaStreamAttachMemAsync) X(cudaStreamBeginCaptureToGraph) X(cudaStreamCopyAttributes) \
    X(cudaStreamGetAttribute) X(cudaStreamGetCaptureInfo_ptsz) X(cudaStreamGetCaptureInfo_v3) \
    X(cudaStreamGetDevResource) X(cudaStreamGetDevice) \
    X(cudaStreamSetAttribute) X(cudaStreamUpdateCaptureDependencies) \
    X(cudaStreamUpdateCaptureDependencies_v2) X(cudaThreadExit) X(cudaThreadGetCacheConfig) \
    X(cudaThreadGetLimit) X(cudaThreadSetCacheConfig) X(cudaThreadSetLimit) \
    X(cudaThreadSynchronize) X(cudaUserObjectCreate) X(cudaUserObjectRelease) \
    X(cudaUserObjectRetain) X(cudaWaitExternalSemaphoresAsync) \
    X(cudaWaitExternalSemaphoresAsync_ptsz) X(cudaWaitExternalSemaphoresAsync_v2)
/* clang-format on */

/* The communication library: memory visible between ranks, and communicators that grow or rest. */
/* clang-format off */
#define RT_REFUSED_NCCL_LIST(X) \
    X(ncclCommGetUniqueId) X(ncclCommGrow) X(ncclCommMemStats) X(ncclCommResume) \
    X(ncclCommSuspend) X(ncclGetLsaMultimemDevicePointer) X(ncclGetPeerDevicePointer) \
    X(ncclPutSignal) X(ncclSignal) X(ncclWaitSignal) X(ncclWinGetUserPtr)

/* The matrix library: algorithms singly. */
#define RT_REFUSED_BLAS_LIST(X) \
    X(cublasLtMatmulAlgoCheck) X(cublasLtMatmulAlgoConfigGetAttribute) \
    X(cublasLtMatmulAlgoConfigSetAttribute) X(cublasLtMatmulAlgoInit)
/* clang-format on */

#endif
