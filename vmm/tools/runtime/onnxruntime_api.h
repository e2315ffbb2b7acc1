/* onnxruntime_api.h - what ONNX Runtime's CUDA provider calls beyond PyTorch.
 *
 * Source: the undefined symbols of libonnxruntime_providers_cuda.so in onnxruntime-gpu 1.31. */
#ifndef PLEAT_RUNTIME_ONNXRUNTIME_API_H
#define PLEAT_RUNTIME_ONNXRUNTIME_API_H

#include "vmm/tools/runtime/runtime_api.h"

RT_EXPORT rt_error cudaMallocHost(void **out, size_t bytes);
RT_EXPORT rt_error cudaStreamCreateWithFlags(cu_stream *stream, unsigned flags);
RT_EXPORT int cublasLtCreate(void **handle);
RT_EXPORT int cublasLtDestroy(void *handle);

#endif
