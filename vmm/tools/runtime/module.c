/* module.c - entry points of the driver for code, not memory. Kernels compiled at run time are
 * accepted and launched like all others; linking is not simulated. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "vmm/base/pleat_sim.h"
#include "vmm/tools/runtime/runtime.h"

/* One handle for all modules and functions. */
static char anything;

/* The id of the table that every CUDA runtime asks for first when linked into a library
 * statically. */
static const unsigned char table_of_static_runtimes[16] = { 0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4,
                                                            0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39,
                                                            0x12, 0xfd, 0x9d, 0xf9 };

static void say_who_is_static(const void *caller)
{
    static atomic_bool is_said;
    Dl_info of_caller;
    bool is_known = dladdr(caller, &of_caller) != 0 && of_caller.dli_fname != NULL;
    if (!atomic_exchange(&is_said, true)) {
        fprintf(
            stderr,
            "pleat_runtime: %s has a CUDA runtime of its own linked in, which works on NVIDIA's "
            "driver only: link it with nvcc -cudart shared (docs/runtime.md)\n",
            is_known ? of_caller.dli_fname : "a library");
    }
}

/* The vendor's libraries ask for undocumented tables of functions. They can do without, or refuse
 * to work. Without this refusal the compiler of kernels would crash. */
cu_result cuGetExportTable(const void **table, const void *id)
{
    if (memcmp(id, table_of_static_runtimes, sizeof(table_of_static_runtimes)) == 0) {
        say_who_is_static(__builtin_return_address(0));
    }
    *table = NULL;
    return CU_NOT_FOUND;
}

cu_result cuCtxSetCurrent(cu_context ctx)
{
    int count = 0;
    cu_result result = rt_init();
    if (result == CU_SUCCESS) {
        result = cuDeviceGetCount(&count);
    }
    for (int i = 0; i < count && ctx != NULL && result == CU_SUCCESS; i++) {
        cu_context of_device;
        result = cuDevicePrimaryCtxRetain(&of_device, i);
        (void)cuDevicePrimaryCtxRelease_v2(i);
        if (of_device == ctx) {
            return rt_set_device(i, true);
        }
    }
    return ctx == NULL ? result : CU_INVALID_CONTEXT;
}

static cu_result launch(cu_stream stream)
{
    cu_result result = rt_enter();
    return result == CU_SUCCESS ? rt_work(stream) : result;
}

cu_result cuLaunchKernel(void *func, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                         unsigned block_x, unsigned block_y, unsigned block_z,
                         unsigned shared_bytes, cu_stream stream, void **args, void **extra)
{
    (void)func;
    (void)grid_x;
    (void)grid_y;
    (void)grid_z;
    (void)block_x;
    (void)block_y;
    (void)block_z;
    (void)shared_bytes;
    (void)args;
    (void)extra;
    return launch(stream);
}

cu_result cuLaunchCooperativeKernel(void *func, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                    unsigned block_x, unsigned block_y, unsigned block_z,
                                    unsigned shared_bytes, cu_stream stream, void **args)
{
    (void)func;
    (void)grid_x;
    (void)grid_y;
    (void)grid_z;
    (void)block_x;
    (void)block_y;
    (void)block_z;
    (void)shared_bytes;
    (void)args;
    return launch(stream);
}

cu_result cuModuleLoad(void **module, const char *path)
{
    (void)path;
    *module = &anything;
    return CU_SUCCESS;
}

cu_result cuModuleLoadData(void **module, const void *image)
{
    (void)image;
    *module = &anything;
    return CU_SUCCESS;
}

cu_result cuModuleLoadDataEx(void **module, const void *image, unsigned n, void *options,
                             void **values)
{
    (void)image;
    (void)n;
    (void)options;
    (void)values;
    *module = &anything;
    return CU_SUCCESS;
}

cu_result cuModuleUnload(void *module)
{
    (void)module;
    return CU_SUCCESS;
}

cu_result cuModuleGetFunction(void **func, void *module, const char *name)
{
    (void)module;
    (void)name;
    *func = &anything;
    return CU_SUCCESS;
}

/* The first attribute is the most threads in a block; the others are counts of bytes. */
cu_result cuFuncGetAttribute(int *value, int attribute, void *func)
{
    (void)func;
    *value = attribute == 0 ? rt_attribute(1, rt_device()) : 0;
    return CU_SUCCESS;
}

cu_result cuFuncSetAttribute(void *func, int attribute, int value)
{
    (void)func;
    (void)attribute;
    (void)value;
    return CU_SUCCESS;
}

cu_result cuFuncSetCacheConfig(void *func, int config)
{
    (void)func;
    (void)config;
    return CU_SUCCESS;
}

cu_result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, void *func, int block_size,
                                                      size_t shared_bytes)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(n, func, block_size, shared_bytes);
}

cu_result cuLinkCreate_v2(unsigned n, void *options, void **values, void **state)
{
    (void)n;
    (void)options;
    (void)values;
    (void)state;
    return rt_unsupported(__func__);
}

cu_result cuLinkAddData_v2(void *state, int type, void *data, size_t bytes, const char *name,
                           unsigned n, void *options, void **values)
{
    (void)state;
    (void)type;
    (void)data;
    (void)bytes;
    (void)name;
    (void)n;
    (void)options;
    (void)values;
    return rt_unsupported(__func__);
}

cu_result cuLinkComplete(void *state, void **image, size_t *bytes)
{
    (void)state;
    (void)image;
    (void)bytes;
    return rt_unsupported(__func__);
}

/* Describes a tensor for kernels that copy tensors. Nobody reads the 128 bytes. */
cu_result cuTensorMapEncodeTiled(void *map)
{
    (void)map;
    return CU_SUCCESS;
}

/* PyTorch looks the address up, but calls the function only for memory shared between devices. */
cu_result cuMemsetD32Async(cu_devptr ptr, unsigned value, size_t n, cu_stream stream)
{
    (void)ptr;
    (void)value;
    (void)n;
    (void)stream;
    return rt_unsupported(__func__);
}

cu_result cuStreamWriteValue32(cu_stream stream, cu_devptr ptr, uint32_t value, unsigned flags)
{
    return cuStreamWriteValue32_v2(stream, ptr, value, flags);
}
