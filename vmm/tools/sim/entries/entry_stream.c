/* entry_stream.c - exported calls for streams and their captures. */
#include "vmm/tools/sim/entries/call.h"
#include "vmm/tools/sim/memory/mempool.h"
#include "vmm/tools/sim/work/capture.h"
#include "vmm/tools/sim/work/sim_context.h"

static cu_result create(sim_entry entry, cu_stream *stream, unsigned flags, int priority)
{
    sim_call call;
    sim_context *context;
    sim_call_begin(&call, entry, 0, flags, 0, (uint64_t)priority);
    if (call.result == CU_SUCCESS) {
        call.result = sim_context_current(&context);
    }
    if (call.result == CU_SUCCESS) {
        call.result = sim_stream_create(context, flags, priority, stream);
    }
    if (call.result == CU_SUCCESS) {
        call.args[0] = sim_arg(*stream);
        call.args[2] = sim.next_stream_id;
    }
    return sim_call_end(&call);
}

cu_result cuStreamCreate(cu_stream *stream, unsigned flags)
{
    return create(SIM_CU_stream_create, stream, flags, 0);
}

cu_result cuStreamCreateWithPriority(cu_stream *stream, unsigned flags, int priority)
{
    return create(SIM_CU_stream_create_priority, stream, flags, priority);
}

cu_result cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_priority_range, 0, (uint64_t)SIM_PRIORITY_GREATEST, 0, 0);
    if (call.result == CU_SUCCESS && least != NULL) {
        *least = 0;
    }
    if (call.result == CU_SUCCESS && greatest != NULL) {
        *greatest = SIM_PRIORITY_GREATEST;
    }
    return sim_call_end(&call);
}

cu_result cuStreamGetPriority(cu_stream stream, int *priority)
{
    sim_call call;
    sim_stream *it;
    sim_call_begin(&call, SIM_CU_stream_priority, sim_arg(stream), 0, 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = priority == NULL ? CU_INVALID_VALUE : sim_stream_find(stream, &it);
    }
    if (call.result == CU_SUCCESS) {
        *priority = it->priority;
        call.args[1] = (uint64_t)*priority;
    }
    return sim_call_end(&call);
}

cu_result cuStreamGetFlags(cu_stream stream, unsigned *flags)
{
    sim_call call;
    sim_stream *it;
    sim_call_begin(&call, SIM_CU_stream_flags, sim_arg(stream), 0, 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = flags == NULL ? CU_INVALID_VALUE : sim_stream_find(stream, &it);
    }
    if (call.result == CU_SUCCESS) {
        *flags = it->is_blocking || it->is_legacy ? CU_STREAM_DEFAULT_FLAG
                                                  : CU_STREAM_NON_BLOCKING_FLAG;
        call.args[1] = *flags;
    }
    return sim_call_end(&call);
}

cu_result cuStreamDestroy_v2(cu_stream stream)
{
    sim_call call;
    sim_stream *it;
    sim_call_begin(&call, SIM_CU_stream_destroy, sim_arg(stream), 0, 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = sim_stream_find(stream, &it);
    }
    if (call.result == CU_STREAM_DETACHED) {
        call.result = CU_SUCCESS;
    }
    if (call.result == CU_SUCCESS &&
        (stream == NULL || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)) {
        call.result = CU_INVALID_HANDLE;
    } else if (call.result == CU_SUCCESS) {
        sim_stream_destroy(it);
    }
    return sim_call_end(&call);
}

/* Refuses a captured stream: CUDA's documentation is silent, but NVIDIA's CCCL avoids asking for a
 * captured stream's id. */
static cu_result find_at_rest(cu_stream handle, sim_stream **stream)
{
    cu_result result = sim_stream_find(handle, stream);
    return result == CU_SUCCESS ? sim_capture_forbid(*stream) : result;
}

cu_result cuStreamGetId(cu_stream stream, unsigned long long *id)
{
    sim_call call;
    sim_stream *it;
    sim_call_begin(&call, SIM_CU_stream_id, sim_arg(stream), 0, 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = id == NULL ? CU_INVALID_VALUE : find_at_rest(stream, &it);
    }
    if (call.result == CU_SUCCESS) {
        *id = it->id;
        call.args[1] = it->id;
    }
    return sim_call_end(&call);
}

cu_result cuStreamGetCtx(cu_stream stream, cu_context *ctx)
{
    sim_call call;
    sim_stream *it;
    sim_call_begin(&call, SIM_CU_stream_ctx, sim_arg(stream), 0, 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = ctx == NULL ? CU_INVALID_VALUE : find_at_rest(stream, &it);
    }
    if (call.result == CU_SUCCESS) {
        *ctx = sim_context_handle(it->context);
        call.args[1] = sim_arg(*ctx);
    }
    return sim_call_end(&call);
}

/* For queries of a stream's own progress. Refused while the stream is captured. On the legacy
 * default stream, as for any command, captures of blocking streams count too. */
static cu_result find_running(cu_stream handle, sim_stream **stream)
{
    cu_result result = sim_stream_find(handle, stream);
    if (result == CU_SUCCESS) {
        result = sim_capture_forbid(*stream);
    }
    if (result == CU_SUCCESS) {
        result = sim_capture_check_use(*stream);
    }
    if (result == CU_SUCCESS && (*stream)->is_legacy) {
        sim_stream_join_default(*stream);
    }
    return result;
}

cu_result cuStreamQuery(cu_stream stream)
{
    sim_call call;
    sim_stream *it;
    sim_call_begin(&call, SIM_CU_stream_query, sim_arg(stream), 0, 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = find_running(stream, &it);
    }
    if (call.result == CU_SUCCESS && !(sim_stream_is_idle(it) && sim_stream_passed(&it->deps))) {
        call.result = CU_NOT_READY;
    }
    return sim_call_end(&call);
}

cu_result cuStreamSynchronize(cu_stream stream)
{
    sim_call call;
    sim_stream *it;
    sim_call_begin(&call, SIM_CU_stream_synchronize, sim_arg(stream), 0, 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = find_running(stream, &it);
    }
    if (call.result == CU_SUCCESS && !sim_work_finish_until(it, it->submitted, it->deps)) {
        call.result = CU_NOT_READY;
    }
    if (call.result == CU_SUCCESS) {
        sim_mempool_synchronized();
    }
    return sim_call_end(&call);
}

cu_result cuStreamWaitEvent(cu_stream stream, cu_event event, unsigned flags)
{
    sim_call call;
    sim_stream *it;
    sim_call_begin(&call, SIM_CU_stream_wait_event, sim_arg(stream), sim_arg(event), 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = flags != 0 ? CU_INVALID_VALUE : sim_stream_find(stream, &it);
    }
    if (call.result == CU_SUCCESS) {
        sim_event *point = sim_event_find(event);
        call.result = point == NULL ? CU_INVALID_HANDLE : sim_event_wait(it, point);
    }
    return sim_call_end(&call);
}

/* While blocking streams are captured the legacy stream's status is an error; asking does not harm
 * those captures. */
static cu_result capture_status(cu_stream handle, int *status, const sim_capture **capture)
{
    sim_stream *stream;
    cu_result result = sim_stream_find(handle, &stream);
    if (result != CU_SUCCESS) {
        return result;
    }
    if (stream->is_legacy && stream->context->n_capturing > 0) {
        return CU_CAPTURE_IMPLICIT;
    }
    *status = sim_capture_status(stream);
    *capture = stream->capture;
    return CU_SUCCESS;
}

cu_result cuStreamIsCapturing(cu_stream stream, int *status)
{
    sim_call call;
    const sim_capture *capture;
    sim_call_begin(&call, SIM_CU_stream_is_capturing, sim_arg(stream), 0, 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = status == NULL ? CU_INVALID_VALUE : capture_status(stream, status, &capture);
    }
    if (call.result == CU_SUCCESS) {
        call.args[1] = (uint64_t)*status;
    }
    return sim_call_end(&call);
}

/* Always answers that the stream has no dependencies. For an invalid capture only the status is
 * valid, as the reference says. */
cu_result cuStreamGetCaptureInfo_v2(cu_stream stream, int *status, unsigned long long *id,
                                    cu_graph *graph, const cu_graph_node **deps, size_t *n_deps)
{
    sim_call call;
    const sim_capture *capture = NULL;
    sim_call_begin(&call, SIM_CU_stream_capture_info, sim_arg(stream), 0, 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = status == NULL ? CU_INVALID_VALUE : capture_status(stream, status, &capture);
    }
    if (call.result != CU_SUCCESS) {
        return sim_call_end(&call);
    }
    bool is_active = *status == CU_CAPTURE_ACTIVE;
    call.args[1] = (uint64_t)*status;
    call.args[2] = is_active ? sim_capture_id(capture) : 0;
    if (id != NULL) {
        *id = call.args[2];
    }
    if (graph != NULL) {
        *graph = is_active ? sim_capture_graph(capture) : NULL;
    }
    if (deps != NULL) {
        *deps = NULL;
    }
    if (n_deps != NULL) {
        *n_deps = 0;
    }
    return sim_call_end(&call);
}

cu_result cuStreamBeginCapture_v2(cu_stream stream, int mode)
{
    sim_call call;
    sim_stream *it;
    sim_call_begin(&call, SIM_CU_stream_begin_capture, sim_arg(stream), (uint64_t)mode, 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = sim_stream_find(stream, &it);
    }
    if (call.result == CU_SUCCESS) {
        call.result = sim_capture_begin(it, mode);
    }
    return sim_call_end(&call);
}

cu_result cuStreamEndCapture(cu_stream stream, cu_graph *graph)
{
    sim_call call;
    sim_stream *it;
    sim_call_begin(&call, SIM_CU_stream_end_capture, sim_arg(stream), 0, 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = graph == NULL ? CU_INVALID_VALUE : sim_stream_find(stream, &it);
    }
    if (call.result == CU_SUCCESS) {
        *graph = NULL;
        call.result = sim_capture_end(it, graph);
    }
    if (call.result == CU_SUCCESS) {
        call.args[1] = sim_arg(*graph);
    }
    return sim_call_end(&call);
}

cu_result cuThreadExchangeStreamCaptureMode(int *mode)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_thread_capture_mode, mode == NULL ? 0 : (uint64_t)*mode, 0, 0, 0);
    bool is_good = mode != NULL && *mode >= CU_CAPTURE_MODE_GLOBAL &&
                   *mode <= CU_CAPTURE_MODE_RELAXED;
    if (call.result == CU_SUCCESS && !is_good) {
        call.result = CU_INVALID_VALUE;
    } else if (call.result == CU_SUCCESS) {
        sim_thread *self = sim_thread_self();
        int previous = self->capture_mode;
        self->capture_mode = *mode;
        *mode = previous;
        call.args[1] = (uint64_t)previous;
    }
    return sim_call_end(&call);
}
