/* launch.c - kernels. A launch is work that takes its turn on a stream and computes nothing. */
#include <string.h>

#include "vmm/base/pleat_sim.h"
#include "vmm/tools/runtime/known.h"
#include "vmm/tools/runtime/runtime.h"

cu_result rt_work(cu_stream stream)
{
    rt_known_forget_all();
    return pleat_sim_op_kernel(stream);
}

static rt_error launch(const char *call, cu_stream stream)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = rt_work(stream);
    }
    return rt_end(call, result);
}

rt_error cudaLaunchKernel(const void *func, rt_dim3 grid, rt_dim3 block, void **args,
                          size_t shared_bytes, cu_stream stream)
{
    (void)func;
    (void)grid;
    (void)block;
    (void)args;
    (void)shared_bytes;
    return launch(__func__, stream);
}

rt_error cudaLaunchKernelExC(const rt_launch_config *config, const void *func, void **args)
{
    (void)func;
    (void)args;
    return launch(__func__, config->stream);
}

rt_error cudaLaunchCooperativeKernel(const void *func, rt_dim3 grid, rt_dim3 block, void **args,
                                     size_t shared_bytes, cu_stream stream)
{
    (void)func;
    (void)grid;
    (void)block;
    (void)args;
    (void)shared_bytes;
    return launch(__func__, stream);
}

rt_error __cudaLaunchKernel(void *kernel, rt_dim3 grid, rt_dim3 block, void **args,
                            size_t shared_bytes, cu_stream stream)
{
    (void)kernel;
    (void)grid;
    (void)block;
    (void)args;
    (void)shared_bytes;
    return launch(__func__, stream);
}

rt_error __cudaGetKernel(void **kernel, const void *func)
{
    *kernel = (void *)(uintptr_t)func;
    return CU_SUCCESS;
}

/* ---- the configuration between <<< and >>> --------------------------------------------------- */

enum { MAX_PUSHED = 16 };

typedef struct launch_shape {
    rt_dim3 grid;
    rt_dim3 block;
    size_t shared_bytes;
    cu_stream stream;
} launch_shape;

static _Thread_local launch_shape pushed[MAX_PUSHED];
static _Thread_local unsigned n_pushed;

unsigned __cudaPushCallConfiguration(rt_dim3 grid, rt_dim3 block, size_t shared_bytes,
                                     cu_stream stream)
{
    if (n_pushed == MAX_PUSHED) {
        return 1; /* tells the caller not to launch */
    }
    pushed[n_pushed++] = (launch_shape){ grid, block, shared_bytes, stream };
    return 0;
}

rt_error __cudaPopCallConfiguration(rt_dim3 *grid, rt_dim3 *block, size_t *shared_bytes,
                                    void *stream)
{
    if (n_pushed == 0) {
        return rt_end(__func__, CU_INVALID_VALUE);
    }
    const launch_shape *shape = &pushed[--n_pushed];
    *grid = shape->grid;
    *block = shape->block;
    *shared_bytes = shape->shared_bytes;
    memcpy(stream, &shape->stream, sizeof(shape->stream));
    return CU_SUCCESS;
}

/* ---- attributes and occupancy ---------------------------------------------------------------- */

rt_error cudaFuncGetAttributes(rt_func_attributes *out, const void *func)
{
    (void)func;
    cu_result result = rt_enter();
    if (result != CU_SUCCESS) {
        return rt_end(__func__, result);
    }
    int device = rt_device();
    int version = 10 * rt_attribute(CU_ATTR_COMPUTE_MAJOR, device) +
                  rt_attribute(CU_ATTR_COMPUTE_MINOR, device);
    memset(out, 0, sizeof(*out));
    out->max_threads_per_block = rt_attribute(1, device);
    out->n_regs = 32;
    out->ptx_version = version;
    out->binary_version = version;
    out->max_dynamic_shared_bytes = rt_attribute(97, device);
    return CU_SUCCESS;
}

rt_error cudaFuncSetAttribute(const void *func, int attribute, int value)
{
    (void)func;
    (void)attribute;
    (void)value;
    return rt_end(__func__, rt_enter());
}

rt_error cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, const void *func,
                                                                int block_size, size_t shared_bytes,
                                                                unsigned flags)
{
    (void)func;
    (void)flags;
    cu_result result = rt_enter();
    if (result == CU_SUCCESS && block_size <= 0) {
        result = CU_INVALID_VALUE;
    }
    if (result != CU_SUCCESS) {
        return rt_end(__func__, result);
    }
    int device = rt_device();
    size_t reserved = (size_t)rt_attribute(111, device);
    int by_threads = rt_attribute(39, device) / block_size;
    int by_shared = (int)((size_t)rt_attribute(81, device) / (shared_bytes + reserved));
    int most = rt_attribute(106, device);
    *n = by_threads < by_shared ? by_threads : by_shared;
    *n = *n < most ? *n : most;
    return CU_SUCCESS;
}

rt_error cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, const void *func, int block_size,
                                                       size_t shared_bytes)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(n, func, block_size, shared_bytes,
                                                                  0);
}

/* ---- registration: nothing is loaded --------------------------------------------------------- */

void **__cudaRegisterFatBinary(void *binary)
{
    static void *handle;
    (void)binary;
    return &handle;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

void __cudaUnregisterFatBinary(void **handle)
{
    (void)handle;
}

void __cudaRegisterFunction(void **handle, const char *func, char *device_func, const char *name,
                            int limit, void *tid, void *bid, rt_dim3 *block, rt_dim3 *grid,
                            int *warp_size)
{
    (void)handle;
    (void)func;
    (void)device_func;
    (void)name;
    (void)limit;
    (void)tid;
    (void)bid;
    (void)block;
    (void)grid;
    (void)warp_size;
}

void __cudaRegisterVar(void **handle, char *var, char *device_var, const char *name, int is_extern,
                       size_t bytes, int is_constant, int is_global)
{
    (void)handle;
    (void)var;
    (void)device_var;
    (void)name;
    (void)is_extern;
    (void)bytes;
    (void)is_constant;
    (void)is_global;
}

char __cudaInitModule(void **handle)
{
    (void)handle;
    return 1;
}
