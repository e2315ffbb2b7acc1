/* runtime_stream.c - streams, events and host functions. */
#include "vmm/tools/runtime/runtime.h"

rt_error cudaStreamCreateWithPriority(cu_stream *stream, unsigned flags, int priority)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = cuStreamCreateWithPriority(stream, flags, priority);
    }
    return rt_end(__func__, result);
}

rt_error cudaStreamCreate(cu_stream *stream)
{
    return cudaStreamCreateWithPriority(stream, CU_STREAM_DEFAULT_FLAG, 0);
}

rt_error cudaStreamGetPriority(cu_stream stream, int *priority)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = cuStreamGetPriority(stream, priority);
    }
    return rt_end(__func__, result);
}

rt_error cudaStreamGetFlags(cu_stream stream, unsigned *flags)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = cuStreamGetFlags(stream, flags);
    }
    return rt_end(__func__, result);
}

rt_error cudaStreamGetId(cu_stream stream, unsigned long long *id)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = cuStreamGetId(stream, id);
    }
    return rt_end(__func__, result);
}

rt_error cudaStreamDestroy(cu_stream stream)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = cuStreamDestroy_v2(stream);
    }
    return rt_end(__func__, result);
}

rt_error cudaStreamQuery(cu_stream stream)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = cuStreamQuery(stream);
    }
    return rt_end(__func__, result);
}

rt_error cudaStreamSynchronize(cu_stream stream)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = cuStreamSynchronize(stream);
    }
    return rt_end(__func__, result);
}

rt_error cudaStreamWaitEvent(cu_stream stream, cu_event event, unsigned flags)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = cuStreamWaitEvent(stream, event, flags & ~1U); /* 1: external, for captures */
    }
    return rt_end(__func__, result);
}

/* Host functions are called at once, after the stream's work. In a capture they would become graph
 * nodes, which the simulator lacks. */
static cu_result before_host_function(cu_stream stream)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = cuStreamSynchronize(stream);
    }
    return result;
}

rt_error cudaStreamAddCallback(cu_stream stream, rt_stream_callback callback, void *user,
                               unsigned flags)
{
    (void)flags;
    cu_result result = before_host_function(stream);
    if (result == CU_SUCCESS) {
        callback(stream, CU_SUCCESS, user);
    }
    return rt_end(__func__, result);
}

rt_error cudaLaunchHostFunc(cu_stream stream, rt_host_fn fn, void *user)
{
    cu_result result = before_host_function(stream);
    if (result == CU_SUCCESS) {
        fn(user);
    }
    return rt_end(__func__, result);
}

/* ---- events ---------------------------------------------------------------------------------- */

rt_error cudaEventCreateWithFlags(cu_event *event, unsigned flags)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = cuEventCreate(event, flags);
    }
    return rt_end(__func__, result);
}

rt_error cudaEventCreate(cu_event *event)
{
    return cudaEventCreateWithFlags(event, CU_EVENT_DEFAULT_FLAG);
}

rt_error cudaEventDestroy(cu_event event)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = cuEventDestroy_v2(event);
    }
    return rt_end(__func__, result);
}

rt_error cudaEventRecordWithFlags(cu_event event, cu_stream stream, unsigned flags)
{
    (void)flags;
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = cuEventRecord(event, stream);
    }
    return rt_end(__func__, result);
}

rt_error cudaEventRecord(cu_event event, cu_stream stream)
{
    return cudaEventRecordWithFlags(event, stream, 0);
}

rt_error cudaEventQuery(cu_event event)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = cuEventQuery(event);
    }
    return rt_end(__func__, result);
}

rt_error cudaEventSynchronize(cu_event event)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = cuEventSynchronize(event);
    }
    return rt_end(__func__, result);
}

rt_error cudaEventElapsedTime(float *milliseconds, cu_event start, cu_event end)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = cuEventElapsedTime(milliseconds, start, end);
    }
    return rt_end(__func__, result);
}
