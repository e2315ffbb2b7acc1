/* submit.c - finds the stream, checks captures and addresses, hands the work on. */
#include "vmm/sim/work/submit.h"

#include "vmm/sim/memory/memory.h"
#include "vmm/sim/work/capture.h"
#include "vmm/sim/work/hazard.h"
#include "vmm/sim/work/sim_context.h"

cu_result sim_submit_to(sim_stream *stream, const sim_task *task, bool is_counted)
{
    cu_result result = sim_capture_check_use(stream);
    if (result != CU_SUCCESS) {
        return result;
    }
    if (stream->capture != NULL) {
        sim_capture_add(stream, task);
    } else {
        sim_work_submit(stream, task, is_counted);
    }
    return CU_SUCCESS;
}

cu_result sim_submit(cu_stream handle, const sim_task *task, bool is_counted)
{
    sim_context *context;
    sim_stream *stream;
    cu_result result = sim_context_current(&context);
    if (result == CU_SUCCESS) {
        result = sim_stream_find(handle, &stream);
    }
    if (result != CU_SUCCESS) {
        return result;
    }
    if (sim_context_root(stream->context) != sim_context_root(context)) {
        return CU_INVALID_HANDLE;
    }
    return sim_submit_to(stream, task, is_counted);
}

/* A driver refuses unknown addresses. The program is at fault anyway, so a hazard is recorded. */
static cu_result check_address(int device, const pleat_sim_access *access)
{
    const pleat_sim_access *first;
    uint64_t any;
    cu_result result = CU_SUCCESS;
    if (!sim_hazard_is_usable(device, access, 1, &first, &any)) {
        sim_hazard_add(PLEAT_SIM_UNMAPPED_ACCESS, access->ptr, access->bytes,
                       "a memset, copy or stream write of bytes without mapping or access, or of "
                       "no live block");
        result = CU_INVALID_VALUE;
    }
    return result;
}

/* The device that owns the memory, else the current device. */
static int device_of(uint64_t ptr, int device)
{
    const sim_mapping *mapping = sim_mapping_at(ptr);
    return mapping != NULL ? mapping->handle->device : device;
}

cu_result sim_submit_copy(cu_stream handle, uint64_t to, uint64_t from, uint64_t bytes)
{
    sim_context *context;
    cu_result result = sim_context_current(&context);
    if (result != CU_SUCCESS) {
        return result;
    }
    const pleat_sim_access accesses[2] = { { to, bytes, true }, { from, bytes, false } };
    int to_device = device_of(to, context->device);
    int from_device = device_of(from, context->device);
    sim_task task = {
        .kind = SIM_TASK_COPY,
        .is_peer_s = to_device != context->device || from_device != context->device,
        .n = 2,
        .accesses = accesses,
    };
    result = check_address(to_device, &accesses[0]);
    if (result == CU_SUCCESS) {
        result = check_address(from_device, &accesses[1]);
    }
    if (result != CU_SUCCESS || bytes == 0) {
        return result;
    }
    return sim_submit(handle, &task, true);
}

cu_result sim_submit_checked(cu_stream handle, sim_task_kind kind, uint64_t value, void *host,
                             const pleat_sim_access *access, bool is_counted)
{
    sim_task task = { .kind = kind, .value = value, .host = host, .n = 1, .accesses = access };
    sim_context *context;
    cu_result result = sim_context_current(&context);
    if (result == CU_SUCCESS) {
        result = check_address(context->device, access);
    }
    if (result != CU_SUCCESS || access->bytes == 0) {
        return result;
    }
    return sim_submit(handle, &task, is_counted);
}
