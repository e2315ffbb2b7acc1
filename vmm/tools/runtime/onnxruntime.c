/* onnxruntime.c - calls of ONNX Runtime's CUDA provider beyond PyTorch's, as further names for
 * known functions. PyTorch passes cuBLAS handles to the light library, so a handle serves as either
 * kind. */
#include "vmm/tools/runtime/onnxruntime_api.h"

rt_error cudaMallocHost(void **out, size_t bytes)
{
    return cudaHostAlloc(out, bytes, 0);
}

rt_error cudaStreamCreateWithFlags(cu_stream *stream, unsigned flags)
{
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

int cublasLtCreate(void **handle)
{
    return cublasCreate_v2(handle);
}

int cublasLtDestroy(void *handle)
{
    return cublasDestroy_v2(handle);
}
