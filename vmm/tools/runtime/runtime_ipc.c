/* runtime_ipc.c - memory and events of other processes: the driver's calls under the runtime's
 * names. */
#include "vmm/base/pleat_sim.h"
#include "vmm/tools/runtime/runtime.h"

rt_error cudaIpcGetMemHandle(rt_ipc_handle *handle, void *ptr)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = cuIpcGetMemHandle(handle, rt_address(ptr));
    }
    return rt_end(__func__, result);
}

rt_error cudaIpcOpenMemHandle(void **out, rt_ipc_handle handle, unsigned flags)
{
    cu_devptr ptr = 0;
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = out == NULL ? CU_INVALID_VALUE : cuIpcOpenMemHandle_v2(&ptr, handle, flags);
    }
    if (result == CU_SUCCESS) {
        *out = (void *)(uintptr_t)ptr;
    }
    return rt_end(__func__, result);
}

/* Waits for the work of all devices first, as cudaFree does. */
rt_error cudaIpcCloseMemHandle(void *ptr)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = cuStreamSynchronize(NULL);
    }
    if (result == CU_SUCCESS) {
        pleat_sim_finish();
        result = cuIpcCloseMemHandle(rt_address(ptr));
    }
    return rt_end(__func__, result);
}

rt_error cudaIpcGetEventHandle(rt_ipc_handle *handle, cu_event event)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = cuIpcGetEventHandle(handle, event);
    }
    return rt_end(__func__, result);
}

rt_error cudaIpcOpenEventHandle(cu_event *event, rt_ipc_handle handle)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = cuIpcOpenEventHandle(event, handle);
    }
    return rt_end(__func__, result);
}
