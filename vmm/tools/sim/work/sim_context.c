/* sim_context.c - contexts live while their retain count is above 0. A created context has 1 until
 * destroyed. Objects made in a context end with the context. */
#include "vmm/tools/sim/work/sim_context.h"

#include <string.h>

#include "vmm/tools/sim/memory/memory.h"
#include "vmm/tools/sim/work/sim_event.h"
#include "vmm/tools/sim/work/sim_stream.h"

static _Thread_local sim_thread this_thread;
static unsigned n_threads; /* lock */

sim_thread *sim_thread_self(void)
{
    sim_thread *self = &this_thread;
    if (self->epoch != sim.epoch) {
        unsigned number = self->number;
        memset(self, 0, sizeof(*self));
        self->epoch = sim.epoch;
        self->number = number != 0 ? number : ++n_threads;
    }
    return self;
}

cu_result sim_context_current(sim_context **out)
{
    const sim_thread *self = sim_thread_self();
    if (self->depth == 0) {
        return CU_INVALID_CONTEXT;
    }
    const sim_context_ref *top = &self->stack[self->depth - 1];
    if (top->context->n_retained == 0 || top->context->generation != top->generation) {
        return CU_CONTEXT_IS_DESTROYED;
    }
    *out = top->context;
    return CU_SUCCESS;
}

static sim_context *created_at(uint32_t i)
{
    return sim_pool_at(&sim.contexts, i);
}

bool sim_context_is_primary(const sim_context *context)
{
    return context == &sim.devices[context->device].context;
}

sim_context *sim_context_find(cu_context handle)
{
    sim_context *found = NULL;
    for (int i = 0; i < sim.conf.n_devices && found == NULL; i++) {
        sim_context *context = &sim.devices[i].context;
        found = sim_context_handle(context) == handle ? context : NULL;
    }
    for (uint32_t i = 0; i < sim.contexts.n_seen && found == NULL; i++) {
        found = sim_context_handle(created_at(i)) == handle ? created_at(i) : NULL;
    }
    return found != NULL && found->n_retained > 0 ? found : NULL;
}

unsigned sim_context_count(int device)
{
    unsigned n = sim.devices[device].context.n_retained > 0;
    for (uint32_t i = 0; i < sim.contexts.n_seen; i++) {
        const sim_context *context = created_at(i);
        n += context->n_retained > 0 && context->device == device;
    }
    return n;
}

/* The driver's memory on the device for a context, such as code, stacks, queues. */
static bool take_share(sim_device *device)
{
    if (sim.conf.context_bytes > sim.conf.capacity_bytes - device->physical_bytes) {
        return false;
    }
    device->physical_bytes += sim.conf.context_bytes;
    if (device->peak_physical_bytes < device->physical_bytes) {
        device->peak_physical_bytes = device->physical_bytes;
    }
    return true;
}

cu_result sim_context_retain(int device, cu_context *out)
{
    sim_device *it = sim_device_at(device);
    if (it == NULL) {
        return CU_INVALID_DEVICE;
    }
    if (out == NULL) {
        return CU_INVALID_VALUE;
    }
    if (it->context.n_retained == 0 && !take_share(it)) {
        return CU_OUT_OF_MEMORY;
    }
    if (it->context.n_retained++ == 0) {
        it->context.generation++;
    }
    *out = sim_context_handle(&it->context);
    return CU_SUCCESS;
}

static void free_linear_of(const sim_context *context)
{
    for (uint32_t i = 0; i < sim.mappings.n_seen; i++) {
        sim_mapping *mapping = sim_pool_at(&sim.mappings, i);
        if (mapping->is_live && mapping->handle->context == context) {
            sim_linear_free(mapping);
            sim.n_lost++;
        }
    }
}

static void end_context(sim_context *context)
{
    sim_work_finish_all();
    sim_stream_drop_context(context);
    sim_event_drop_context(context);
    free_linear_of(context);
    sim.devices[context->device].physical_bytes -= sim.conf.context_bytes;
}

cu_result sim_context_release(int device)
{
    sim_device *it = sim_device_at(device);
    if (it == NULL) {
        return CU_INVALID_DEVICE;
    }
    if (it->context.n_retained == 0) {
        return CU_INVALID_CONTEXT;
    }
    if (--it->context.n_retained == 0) {
        end_context(&it->context);
    }
    return CU_SUCCESS;
}

cu_result sim_context_push(cu_context handle)
{
    sim_thread *self = sim_thread_self();
    sim_context *context = sim_context_find(handle);
    if (context == NULL) {
        return CU_INVALID_CONTEXT;
    }
    if (self->depth == SIM_CONTEXT_STACK) {
        return CU_OUT_OF_MEMORY;
    }
    self->stack[self->depth++] = (sim_context_ref){ context, context->generation };
    return CU_SUCCESS;
}

cu_result sim_context_pop(cu_context *out)
{
    sim_thread *self = sim_thread_self();
    if (self->depth == 0) {
        return CU_INVALID_CONTEXT;
    }
    self->depth--;
    if (out != NULL) {
        *out = sim_context_handle(self->stack[self->depth].context);
    }
    return CU_SUCCESS;
}

cu_result sim_context_set(cu_context handle)
{
    const sim_thread *self = sim_thread_self();
    if (handle != NULL && sim_context_find(handle) == NULL) {
        return CU_INVALID_CONTEXT;
    }
    if (self->depth > 0) {
        (void)sim_context_pop(NULL);
    }
    return handle != NULL ? sim_context_push(handle) : CU_SUCCESS;
}

cu_result sim_context_create(int device, cu_context *out)
{
    if (sim_device_at(device) == NULL) {
        return CU_INVALID_DEVICE;
    }
    if (out == NULL) {
        return CU_INVALID_VALUE;
    }
    if (sim_thread_self()->depth == SIM_CONTEXT_STACK || !take_share(sim_device_at(device))) {
        return CU_OUT_OF_MEMORY;
    }
    uint32_t index;
    sim_context *context = sim_pool_take(&sim.contexts, &index);
    *context = (sim_context){
        .device = device,
        .n_retained = 1,
        .index = index,
        .generation = context->generation + 1,
    };
    *out = sim_context_handle(context);
    return sim_context_push(*out);
}

cu_result sim_context_create_green(int device, unsigned n_multiprocessors, sim_context **out)
{
    cu_context primary;
    uint32_t index;
    cu_result result = sim_context_retain(device, &primary);
    if (result != CU_SUCCESS) {
        return result;
    }
    sim_context *context = sim_pool_take(&sim.contexts, &index);
    *context = (sim_context){
        .device = device,
        .n_retained = 1,
        .index = index,
        .generation = context->generation + 1,
        .primary = &sim.devices[device].context,
        .n_multiprocessors = n_multiprocessors,
    };
    *out = context;
    return CU_SUCCESS;
}

/* The context's work goes on and its streams name it, so no later context takes its place. */
void sim_context_destroy_green(sim_context *context)
{
    context->n_retained = 0;
    sim_stream_detach_context(context);
    if (sim.conf.has_green_events) {
        sim_event_drop_context(context);
    }
    (void)sim_context_release(context->device);
}

cu_result sim_context_destroy(cu_context handle)
{
    sim_context *current = NULL;
    sim_context *context = sim_context_find(handle);
    if (context == NULL || sim_context_is_primary(context) || context->primary != NULL) {
        return CU_INVALID_CONTEXT;
    }
    if (sim_context_current(&current) == CU_SUCCESS && current == context) {
        (void)sim_context_pop(NULL);
    }
    context->n_retained = 0;
    end_context(context);
    sim_pool_give(&sim.contexts, context->index);
    return CU_SUCCESS;
}
