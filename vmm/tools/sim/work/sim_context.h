/* sim_context.h - primary and created contexts, and a stack of contexts per thread. */
#ifndef PLEAT_SIM_CONTEXT_H
#define PLEAT_SIM_CONTEXT_H

#include "vmm/tools/sim/state.h"

cu_result sim_context_retain(int device, cu_context *out);
cu_result sim_context_release(int device);
cu_result sim_context_push(cu_context handle);
cu_result sim_context_pop(cu_context *out);
/* Put it in the place of the thread's current context, or on an empty stack; NULL = pop. */
cu_result sim_context_set(cu_context handle);
/* Make a context of the device's, current to the calling thread. */
cu_result sim_context_create(int device, cu_context *out);
/* End a created context, current or not. The calling thread pops its current context. */
cu_result sim_context_destroy(cu_context handle);
bool sim_context_is_primary(const sim_context *context);
unsigned sim_context_count(int device); /* live ones */

/* A green context's primary context, else the context itself. Memory belongs to the root, and
 * mostly events. */
static inline sim_context *sim_context_root(sim_context *context)
{
    return context->primary != NULL ? context->primary : context;
}
/* The context whose events can be recorded on the context's streams. */
static inline sim_context *sim_context_of_events(sim_context *context)
{
    return sim.conf.has_green_events ? context : sim_context_root(context);
}
/* Does an act on the whole of `whole` cover `part`? */
static inline bool sim_context_covers(const sim_context *whole, const sim_context *part)
{
    return part == whole || (part->primary == whole && !sim.conf.is_green_apart);
}
/* Make a green context with so many multiprocessors, or end a green context. Its streams stay,
 * detached. */
cu_result sim_context_create_green(int device, unsigned n_multiprocessors, sim_context **out);
void sim_context_destroy_green(sim_context *context);

/* The context behind a handle while it is retained, or NULL. */
sim_context *sim_context_find(cu_context handle);
static inline cu_context sim_context_handle(sim_context *context)
{
    return (cu_context)(void *)context;
}

#endif
