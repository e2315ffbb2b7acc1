/* entry_event.c - exported calls: events. */
#include "vmm/tools/sim/entries/call.h"
#include "vmm/tools/sim/memory/mempool.h"
#include "vmm/tools/sim/work/sim_context.h"
#include "vmm/tools/sim/work/sim_event.h"

cu_result cuEventCreate(cu_event *event, unsigned flags)
{
    sim_call call;
    sim_context *context;
    sim_call_begin(&call, SIM_CU_event_create, 0, flags, 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = sim_context_current(&context);
    }
    if (call.result == CU_SUCCESS) {
        call.result = sim_event_create(context, flags, event);
    }
    if (call.result == CU_SUCCESS) {
        call.args[0] = sim_arg(*event);
    }
    return sim_call_end(&call);
}

cu_result cuEventRecord(cu_event event, cu_stream stream)
{
    sim_call call;
    sim_stream *it;
    sim_call_begin(&call, SIM_CU_event_record, sim_arg(event), sim_arg(stream), 0, 0);
    sim_event *point = sim_event_find(event);
    if (call.result == CU_SUCCESS) {
        call.result = point == NULL ? CU_INVALID_HANDLE : sim_stream_find(stream, &it);
    }
    if (call.result == CU_SUCCESS) {
        call.result = sim_event_record(point, it);
    }
    return sim_call_end(&call);
}

/* Requires a current context like other calls of events, though the reference does not mention
 * one. */
cu_result cuCtxRecordEvent(cu_context ctx, cu_event event)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_ctx_record_event, sim_arg(ctx), sim_arg(event), 0, 0);
    sim_context *context = sim_context_find(ctx);
    sim_event *point = sim_event_find(event);
    if (call.result == CU_SUCCESS && context == NULL) {
        call.result = CU_INVALID_CONTEXT;
    } else if (call.result == CU_SUCCESS && point == NULL) {
        call.result = CU_INVALID_HANDLE;
    } else if (call.result == CU_SUCCESS) {
        call.result = sim_event_record_context(point, context, false);
    }
    return sim_call_end(&call);
}

cu_result cuEventQuery(cu_event event)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_event_query, sim_arg(event), 0, 0, 0);
    sim_event *point = sim_event_find(event);
    if (call.result == CU_SUCCESS) {
        call.result = point == NULL ? CU_INVALID_HANDLE : sim_event_check(point);
    }
    if (call.result == CU_SUCCESS && !sim_event_has_passed(point)) {
        call.result = CU_NOT_READY;
    }
    return sim_call_end(&call);
}

cu_result cuEventSynchronize(cu_event event)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_event_synchronize, sim_arg(event), 0, 0, 0);
    sim_event *point = sim_event_find(event);
    if (call.result == CU_SUCCESS) {
        call.result = point == NULL ? CU_INVALID_HANDLE : sim_event_check(point);
    }
    if (call.result == CU_SUCCESS && !sim_event_finish(point)) {
        call.result = CU_NOT_READY;
    }
    if (call.result == CU_SUCCESS && point->is_recorded) {
        sim_mempool_synchronized();
    }
    return sim_call_end(&call);
}

/* One microsecond per operation submitted to the device in between. */
static cu_result elapsed(float *milliseconds, sim_event *start, sim_event *end)
{
    if (milliseconds == NULL) {
        return CU_INVALID_VALUE;
    }
    if (start == NULL || end == NULL || start->context != end->context || !start->is_recorded ||
        !end->is_recorded || ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING_FLAG) != 0) {
        return CU_INVALID_HANDLE;
    }
    if (start->capture_id != 0 || end->capture_id != 0) {
        return CU_CAPTURED_EVENT;
    }
    if (!sim_event_has_passed(start) || !sim_event_has_passed(end)) {
        return CU_NOT_READY;
    }
    *milliseconds = ((float)end->stamp - (float)start->stamp) / 1000.0F;
    return CU_SUCCESS;
}

cu_result cuEventElapsedTime(float *milliseconds, cu_event start, cu_event end)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_event_elapsed, sim_arg(start), sim_arg(end), 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = elapsed(milliseconds, sim_event_find(start), sim_event_find(end));
    }
    return sim_call_end(&call);
}

cu_result cuEventDestroy_v2(cu_event event)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_event_destroy, sim_arg(event), 0, 0, 0);
    sim_event *point = sim_event_find(event);
    if (call.result == CU_SUCCESS && point == NULL) {
        call.result = CU_INVALID_HANDLE;
    } else if (call.result == CU_SUCCESS) {
        sim_event_destroy(point);
    }
    return sim_call_end(&call);
}
