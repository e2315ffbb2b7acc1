/* submit.c - finds the stream, checks captures and addresses, hands the work on. */
#include "vmm/tools/sim/work/submit.h"

#include <string.h>

#include "vmm/tools/sim/memory/memory.h"
#include "vmm/tools/sim/work/capture.h"
#include "vmm/tools/sim/work/hazard.h"
#include "vmm/tools/sim/work/late.h"
#include "vmm/tools/sim/work/sim_context.h"

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

/* A stream that the current context may use. */
static cu_result find_stream(cu_stream handle, sim_stream **out)
{
    sim_context *context;
    cu_result result = sim_context_current(&context);
    if (result == CU_SUCCESS) {
        result = sim_stream_find(handle, out);
    }
    if (result == CU_SUCCESS && sim_context_root((*out)->context) != sim_context_root(context)) {
        result = CU_INVALID_HANDLE;
    }
    return result;
}

cu_result sim_submit(cu_stream handle, const sim_task *task, bool is_counted)
{
    sim_stream *stream;
    cu_result result = find_stream(handle, &stream);
    return result == CU_SUCCESS ? sim_submit_to(stream, task, is_counted) : result;
}

/* A driver refuses unknown addresses. The program is at fault anyway, so a hazard is recorded. */
static cu_result check_address(int device, const pleat_sim_access *access)
{
    const pleat_sim_access *first;
    uint64_t any;
    cu_result result = CU_SUCCESS;
    if (!sim_hazard_is_usable(device, access, 1, &first, &any)) {
        pleat_sim_hazard *hazard = sim_hazard_add(
            PLEAT_SIM_UNMAPPED_ACCESS, access->ptr, access->bytes,
            "a memset, copy or stream write of bytes without mapping or access, or of no live "
            "block");
        sim_late_explain(hazard, first);
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

/* ---- memory of the host without a mapping ---- */

/* The host itself does what is asked, once the stream's work so far is over. What is captured moves
 * no bytes. */
static cu_result wait_for(cu_stream handle, bool *is_now)
{
    sim_stream *stream;
    cu_result result = find_stream(handle, &stream);
    if (result == CU_SUCCESS) {
        result = sim_capture_check_use(stream);
    }
    *is_now = result == CU_SUCCESS && stream->capture == NULL;
    if (*is_now) {
        sim_stream_join_default(stream);
        result = sim_work_finish_until(stream, stream->submitted, stream->deps) ? CU_SUCCESS
                                                                                : CU_NOT_READY;
    }
    return result;
}

static cu_result move_on_host(cu_stream handle, void *to, const void *from, uint64_t bytes)
{
    bool is_now = false;
    cu_result result = wait_for(handle, &is_now);
    if (result == CU_SUCCESS && is_now) {
        memmove(to, from, bytes);
    }
    return result;
}

static cu_result command_on_host(cu_stream handle, sim_task_kind kind, uint64_t value, void *host,
                                 const pleat_sim_access *access)
{
    void *at = (void *)(uintptr_t)access->ptr;
    bool is_now = false;
    if (kind == SIM_TASK_READ) {
        return move_on_host(handle, host, at, access->bytes);
    }
    if (kind == SIM_TASK_WRITE) {
        return move_on_host(handle, at, host, access->bytes);
    }
    cu_result result = wait_for(handle, &is_now);
    if (result == CU_SUCCESS && is_now && kind == SIM_TASK_SET) {
        memset(at, (int)value, access->bytes);
    } else if (result == CU_SUCCESS && is_now) {
        memcpy(at, &value, access->bytes); /* its low bytes come first */
    }
    return result;
}

/* ---- copies and others ---- */

cu_result sim_submit_copy(cu_stream handle, uint64_t to, uint64_t from, uint64_t bytes)
{
    if (sim_host_has(to, bytes)) {
        const pleat_sim_access access = { from, bytes, false };
        return sim_submit_checked(handle, SIM_TASK_READ, 0, (void *)(uintptr_t)to, &access, true);
    }
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
    if (result == CU_SUCCESS && access->bytes > 0 && sim_host_has(access->ptr, access->bytes)) {
        return command_on_host(handle, kind, value, host, access);
    }
    if (result == CU_SUCCESS) {
        result = check_address(context->device, access);
    }
    if (result != CU_SUCCESS || access->bytes == 0) {
        return result;
    }
    result = sim_submit(handle, &task, is_counted);
    if (result == CU_SUCCESS && kind == SIM_TASK_READ && !sim.conf.has_memory) {
        memset(host, 0, access->bytes);
    }
    return result;
}
