/* entry_context.c - exported calls for created contexts and the current context. */
#include "vmm/tools/sim/entries/call.h"
#include "vmm/tools/sim/work/sim_context.h"

enum { FLAGS_KNOWN = 0xff, UNSUPPORTED_EXEC_AFFINITY = 224 };

/* Of cuCtxCreate_v4: restrictions on how kernels run, and sharing with graphics. */
typedef struct create_params {
    const void *affinity;
    int n_affinity;
    const void *graphics;
} create_params;

static cu_result check_params(const create_params *params)
{
    if (params == NULL) {
        return CU_SUCCESS;
    }
    if (sim.conf.profile == SIM_PROFILE_OLD_DRIVER) {
        return CU_NOT_FOUND;
    }
    if (params->n_affinity != 0 || params->affinity != NULL) {
        return UNSUPPORTED_EXEC_AFFINITY;
    }
    return params->graphics != NULL ? CU_NOT_SUPPORTED : CU_SUCCESS;
}

/* `params`: of a later version of the call; NULL = of the first. */
static cu_result create(cu_context *ctx, const create_params *params, unsigned flags, cu_device dev)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_ctx_create, 0, flags, (uint64_t)dev, 0);
    if (call.result == CU_SUCCESS) {
        call.result = check_params(params);
    }
    if (call.result == CU_SUCCESS && (flags & ~(unsigned)FLAGS_KNOWN) != 0) {
        call.result = CU_INVALID_VALUE;
    }
    if (call.result == CU_SUCCESS) {
        call.result = sim_context_create(dev, ctx);
    }
    if (call.result == CU_SUCCESS) {
        call.args[0] = sim_arg(*ctx);
    }
    return sim_call_end(&call);
}

cu_result cuCtxCreate_v2(cu_context *ctx, unsigned flags, cu_device dev)
{
    return create(ctx, NULL, flags, dev);
}

cu_result cuCtxCreate_v3(cu_context *ctx, const void *affinity, int n_affinity, unsigned flags,
                         cu_device dev)
{
    create_params params = { affinity, n_affinity, NULL };
    return create(ctx, &params, flags, dev);
}

cu_result cuCtxCreate_v4(cu_context *ctx, const void *params, unsigned flags, cu_device dev)
{
    static const create_params none;
    return create(ctx, params != NULL ? params : &none, flags, dev);
}

cu_result cuCtxDestroy_v2(cu_context ctx)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_ctx_destroy, sim_arg(ctx), 0, 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = sim_context_destroy(ctx);
    }
    return sim_call_end(&call);
}

cu_result cuCtxSetCurrent(cu_context ctx)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_ctx_set_current, sim_arg(ctx), 0, 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = sim_context_set(ctx);
    }
    return sim_call_end(&call);
}
