/* context.c - primary contexts live as long as their retain count is above 0. */
#include "vmm/sim/context.h"

#include <string.h>

#include "vmm/sim/event.h"
#include "vmm/sim/memory.h"
#include "vmm/sim/stream.h"

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

sim_context *sim_context_find(cu_context handle)
{
    for (int i = 0; i < sim.conf.n_devices; i++) {
        sim_context *context = &sim.devices[i].context;
        if (sim_context_handle(context) == handle && context->n_retained > 0) {
            return context;
        }
    }
    return NULL;
}

/* What the driver keeps on the device for a context: code, stacks, queues. */
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

static bool is_linear_of(const sim_mapping *mapping, int device)
{
    const sim_handle *handle = mapping->handle;
    return mapping->is_live && handle->is_linear && handle->segment == NULL &&
           handle->device == device;
}

static void free_linear_of(int device)
{
    for (uint32_t i = 0; i < sim.mappings.n_seen; i++) {
        sim_mapping *mapping = sim_pool_at(&sim.mappings, i);
        if (is_linear_of(mapping, device)) {
            sim_linear_free(mapping);
            sim.n_lost++;
        }
    }
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
        sim_work_finish_all();
        sim_stream_drop_context(&it->context);
        sim_event_drop_context(&it->context);
        free_linear_of(device);
        it->physical_bytes -= sim.conf.context_bytes;
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
