/* context.h - primary contexts and each thread's stack of them. */
#ifndef PLEAT_SIM_CONTEXT_H
#define PLEAT_SIM_CONTEXT_H

#include "vmm/sim/state.h"

cu_result sim_context_retain(int device, cu_context *out);
cu_result sim_context_release(int device);
cu_result sim_context_push(cu_context handle);
cu_result sim_context_pop(cu_context *out);

/* The primary context behind a handle while it is retained, or NULL. */
sim_context *sim_context_find(cu_context handle);
static inline cu_context sim_context_handle(sim_context *context)
{
    return (cu_context)(void *)context;
}

#endif
