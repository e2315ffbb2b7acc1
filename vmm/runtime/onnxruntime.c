/* onnxruntime.c - what ONNX Runtime's CUDA provider calls beyond PyTorch: other names for the same
 * functions. PyTorch passes cuBLAS handles to the light library, so both kinds are the same
 * here. */
#include "vmm/runtime/onnxruntime_api.h"

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
