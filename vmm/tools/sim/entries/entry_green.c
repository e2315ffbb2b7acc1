/* entry_green.c - exported calls: green contexts, which share all of a primary context but some
 * multiprocessors.
 *
 * A green context's handle is no context's until cuCtxFromGreenCtx converts the handle. Its streams
 * do not block. Its default stream is ordered with no other stream, and can be captured. A
 * destroyed green context's streams stay, detached, and their work goes on. Source: CUDA Driver
 * API, green contexts. Since 13.0 the page says that an event or a synchronisation of the primary
 * context covers green contexts. */
#include "vmm/tools/sim/entries/call.h"
#include "vmm/tools/sim/work/capture.h"
#include "vmm/tools/sim/work/sim_context.h"
#include "vmm/tools/sim/work/sim_event.h"
#include "vmm/tools/sim/work/sim_stream.h"

enum {
    N_MULTIPROCESSORS = 108,
    OF_MULTIPROCESSORS = 1, /* type of a resource */
    SHARE = 2,              /* groups have a multiple of so many */
    WITH_DEFAULT_STREAM = 1,
    INVALID_RESOURCE = 915,
};

#define DESC_BASE UINT64_C(0x530000000000)

/* ---- handles --------------------------------------------------------------------------------- */

/* Differs from the context's own handle. */
static cu_green_ctx green_handle(sim_context *context)
{
    return (cu_green_ctx)(void *)((char *)context + 1);
}

static sim_context *find_green(cu_green_ctx green)
{
    void *plain = (char *)(void *)green - 1;
    sim_context *context = green != NULL ? sim_context_find((cu_context)plain) : NULL;
    return context != NULL && context->primary != NULL ? context : NULL;
}

/* ---- resources ------------------------------------------------------------------------------- */

static void describe(cu_dev_resource *resource, unsigned n)
{
    *resource = (cu_dev_resource){ .type = n > 0 ? OF_MULTIPROCESSORS : 0, .n_multiprocessors = n };
}

cu_result cuDeviceGetDevResource(cu_device dev, cu_dev_resource *resource, int type)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_device_resource, (uint64_t)dev, (uint64_t)type, 0, 0);
    if (call.result == CU_SUCCESS && sim_device_at(dev) == NULL) {
        call.result = CU_INVALID_DEVICE;
    } else if (call.result == CU_SUCCESS && (resource == NULL || type != OF_MULTIPROCESSORS)) {
        call.result = CU_INVALID_VALUE;
    } else if (call.result == CU_SUCCESS) {
        describe(resource, N_MULTIPROCESSORS);
    }
    return sim_call_end(&call);
}

cu_result cuGreenCtxGetDevResource(cu_green_ctx green, cu_dev_resource *resource, int type)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_green_resource, sim_arg(green), (uint64_t)type, 0, 0);
    const sim_context *context = find_green(green);
    if (call.result == CU_SUCCESS && context == NULL) {
        call.result = CU_INVALID_CONTEXT;
    } else if (call.result == CU_SUCCESS && (resource == NULL || type != OF_MULTIPROCESSORS)) {
        call.result = CU_INVALID_VALUE;
    } else if (call.result == CU_SUCCESS) {
        describe(resource, context->n_multiprocessors);
    }
    return sim_call_end(&call);
}

/* Without `groups` only tells the possible number of groups. */
static cu_result split(cu_dev_resource *groups, unsigned *n, const cu_dev_resource *input,
                       cu_dev_resource *rest, unsigned least)
{
    if (n == NULL || input == NULL || input->type != OF_MULTIPROCESSORS) {
        return CU_INVALID_VALUE;
    }
    unsigned each = least < SHARE ? SHARE : (least + SHARE - 1) / SHARE * SHARE;
    unsigned n_most = input->n_multiprocessors / each;
    *n = groups != NULL && *n < n_most ? *n : n_most;
    if (*n == 0) {
        return INVALID_RESOURCE;
    }
    for (unsigned i = 0; groups != NULL && i < *n; i++) {
        describe(&groups[i], each);
    }
    if (groups != NULL && rest != NULL) {
        describe(rest, input->n_multiprocessors - *n * each);
    }
    return CU_SUCCESS;
}

cu_result cuDevSmResourceSplitByCount(cu_dev_resource *groups, unsigned *n,
                                      const cu_dev_resource *input, cu_dev_resource *rest,
                                      unsigned flags, unsigned least)
{
    enum { KNOWN_FLAGS = 3 };
    sim_call call;
    sim_call_begin(&call, SIM_CU_resource_split, 0, flags, least, 0);
    if (call.result == CU_SUCCESS) {
        call.result = (flags & ~(unsigned)KNOWN_FLAGS) != 0 ? CU_INVALID_VALUE
                                                            : split(groups, n, input, rest, least);
    }
    if (call.result == CU_SUCCESS) {
        call.args[0] = *n;
    }
    return sim_call_end(&call);
}

cu_result cuDevResourceGenerateDesc(cu_dev_resource_desc *desc, cu_dev_resource *resources,
                                    unsigned n)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_resource_describe, n, 0, 0, 0);
    bool is_good = desc != NULL && resources != NULL && n == 1 &&
                   resources->type == OF_MULTIPROCESSORS;
    if (call.result == CU_SUCCESS && !is_good) {
        call.result = CU_INVALID_VALUE;
    } else if (call.result == CU_SUCCESS) {
        *desc = (cu_dev_resource_desc)(uintptr_t)(DESC_BASE + resources->n_multiprocessors);
    }
    return sim_call_end(&call);
}

/* ---- contexts -------------------------------------------------------------------------------- */

cu_result cuGreenCtxCreate(cu_green_ctx *green, cu_dev_resource_desc desc, cu_device dev,
                           unsigned flags)
{
    sim_call call;
    sim_context *context;
    sim_call_begin(&call, SIM_CU_green_create, 0, flags, (uint64_t)dev, 0);
    uint64_t n = (uint64_t)(uintptr_t)desc - DESC_BASE;
    bool is_good = green != NULL && flags == WITH_DEFAULT_STREAM && n > 0 && n <= N_MULTIPROCESSORS;
    if (call.result == CU_SUCCESS) {
        call.result = is_good ? sim_context_create_green(dev, (unsigned)n, &context)
                              : CU_INVALID_VALUE;
    }
    if (call.result == CU_SUCCESS) {
        *green = green_handle(context);
        call.args[0] = sim_arg(*green);
    }
    return sim_call_end(&call);
}

cu_result cuGreenCtxDestroy(cu_green_ctx green)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_green_destroy, sim_arg(green), 0, 0, 0);
    sim_context *context = find_green(green);
    if (call.result == CU_SUCCESS && context == NULL) {
        call.result = CU_INVALID_CONTEXT;
    } else if (call.result == CU_SUCCESS) {
        sim_context_destroy_green(context);
    }
    return sim_call_end(&call);
}

cu_result cuCtxFromGreenCtx(cu_context *ctx, cu_green_ctx green)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_green_context, sim_arg(green), 0, 0, 0);
    sim_context *context = find_green(green);
    if (call.result == CU_SUCCESS && ctx == NULL) {
        call.result = CU_INVALID_VALUE;
    } else if (call.result == CU_SUCCESS && context == NULL) {
        call.result = CU_INVALID_CONTEXT;
    } else if (call.result == CU_SUCCESS) {
        *ctx = sim_context_handle(context);
        call.args[1] = sim_arg(*ctx);
    }
    return sim_call_end(&call);
}

/* ---- streams and events ---------------------------------------------------------------------- */

cu_result cuGreenCtxStreamCreate(cu_stream *stream, cu_green_ctx green, unsigned flags,
                                 int priority)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_green_stream, 0, flags, 0, sim_arg(green));
    sim_context *context = find_green(green);
    if (call.result == CU_SUCCESS) {
        call.result = context == NULL ? CU_INVALID_CONTEXT
                                      : sim_stream_create(context, flags, priority, stream);
    }
    if (call.result == CU_SUCCESS) {
        call.args[0] = sim_arg(*stream);
        call.args[2] = sim.next_stream_id;
    }
    return sim_call_end(&call);
}

cu_result cuGreenCtxRecordEvent(cu_green_ctx green, cu_event event)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_green_record, sim_arg(green), sim_arg(event), 0, 0);
    sim_context *context = find_green(green);
    sim_event *point = sim_event_find(event);
    if (call.result == CU_SUCCESS && context == NULL) {
        call.result = CU_INVALID_CONTEXT;
    } else if (call.result == CU_SUCCESS) {
        call.result = point == NULL ? CU_INVALID_HANDLE
                                    : sim_event_record_context(point, context, true);
    }
    return sim_call_end(&call);
}

/* The context of a stream at rest. Asking about a captured stream breaks the capture. */
static cu_result find_context(cu_stream handle, sim_context **out)
{
    sim_stream *stream;
    cu_result result = sim_stream_find(handle, &stream);
    result = result == CU_SUCCESS ? sim_capture_forbid(stream) : result;
    if (result == CU_SUCCESS) {
        *out = stream->context;
    }
    return result;
}

static cu_green_ctx green_of(sim_context *context)
{
    return context->primary != NULL ? green_handle(context) : NULL;
}

cu_result cuStreamGetCtx_v2(cu_stream stream, cu_context *ctx, cu_green_ctx *green)
{
    sim_call call;
    sim_context *context = NULL;
    sim_call_begin(&call, SIM_CU_stream_green, sim_arg(stream), 0, 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = ctx == NULL || green == NULL ? CU_INVALID_VALUE
                                                   : find_context(stream, &context);
    }
    if (call.result == CU_SUCCESS) {
        *ctx = sim_context_handle(sim_context_root(context));
        *green = green_of(context);
        call.args[1] = sim_arg(*ctx);
        call.args[2] = sim_arg(*green);
    }
    return sim_call_end(&call);
}

cu_result cuStreamGetGreenCtx(cu_stream stream, cu_green_ctx *green)
{
    sim_call call;
    sim_context *context = NULL;
    sim_call_begin(&call, SIM_CU_stream_get_green, sim_arg(stream), 0, 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = green == NULL ? CU_INVALID_VALUE : find_context(stream, &context);
    }
    if (call.result == CU_SUCCESS) {
        *green = green_of(context);
        call.args[1] = sim_arg(*green);
    }
    return sim_call_end(&call);
}
