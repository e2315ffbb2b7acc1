/* entry_ipc.c - exported calls for memory and events of other processes. */
#include "vmm/tools/sim/entries/call.h"
#include "vmm/tools/sim/memory/sim_ipc.h"

cu_result cuIpcGetMemHandle(cu_ipc_handle *handle, cu_devptr ptr)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_ipc_mem_get, ptr, 0, 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = sim_ipc_get_memory(handle, ptr);
    }
    return sim_call_end(&call);
}

cu_result cuIpcOpenMemHandle_v2(cu_devptr *ptr, cu_ipc_handle handle, unsigned flags)
{
    sim_call call;
    sim_context *context;
    sim_call_begin(&call, SIM_CU_ipc_mem_open, 0, flags, 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = sim_context_current(&context);
    }
    if (call.result == CU_SUCCESS) {
        call.result = sim_ipc_open_memory(context, &handle, flags, ptr);
    }
    if (call.result == CU_SUCCESS) {
        call.args[0] = *ptr;
    }
    return sim_call_end(&call);
}

cu_result cuIpcCloseMemHandle(cu_devptr ptr)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_ipc_mem_close, ptr, 0, 0, 0);
    sim_mapping *mapping = sim_ipc_find(ptr);
    if (call.result == CU_SUCCESS && mapping == NULL) {
        call.result = CU_INVALID_VALUE;
    } else if (call.result == CU_SUCCESS) {
        sim_ipc_close_memory(mapping);
    }
    return sim_call_end(&call);
}

cu_result cuIpcGetEventHandle(cu_ipc_handle *handle, cu_event event)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_ipc_event_get, sim_arg(event), 0, 0, 0);
    sim_event *point = sim_event_find(event);
    if (call.result == CU_SUCCESS) {
        call.result = point == NULL ? CU_INVALID_HANDLE : sim_ipc_get_event(handle, point);
    }
    return sim_call_end(&call);
}

cu_result cuIpcOpenEventHandle(cu_event *event, cu_ipc_handle handle)
{
    sim_call call;
    sim_context *context;
    sim_call_begin(&call, SIM_CU_ipc_event_open, 0, 0, 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = sim_context_current(&context);
    }
    if (call.result == CU_SUCCESS) {
        call.result = sim_ipc_open_event(context, &handle, event);
    }
    if (call.result == CU_SUCCESS) {
        call.args[0] = sim_arg(*event);
    }
    return sim_call_end(&call);
}
