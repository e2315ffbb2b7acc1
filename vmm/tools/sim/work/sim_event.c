/* sim_event.c - record, wait and query.
 *
 * An event recorded in a capture is a point in the graph, not in time. Only streams of the capture
 * can wait for the event, or streams that join the capture by waiting. */
#include "vmm/tools/sim/work/sim_event.h"

#include "vmm/tools/sim/work/capture.h"
#include "vmm/tools/sim/work/hazard.h"
#include "vmm/tools/sim/work/sim_context.h"

#define HANDLE_BASE UINT64_C(0x520000000000)
enum { HANDLE_STEP = 64 };

static sim_quarantine dead_events; /* lock; unless dead_handles:error */

cu_result sim_event_create(sim_context *context, unsigned flags, cu_event *out)
{
    enum { KNOWN_FLAGS = 1 | CU_EVENT_DISABLE_TIMING_FLAG | SIM_EVENT_INTERPROCESS };
    bool is_timed_share = (flags & SIM_EVENT_INTERPROCESS) != 0 &&
                          (flags & CU_EVENT_DISABLE_TIMING_FLAG) == 0;
    if (out == NULL || (flags & ~(unsigned)KNOWN_FLAGS) != 0 || is_timed_share) {
        return CU_INVALID_VALUE;
    }
    uint32_t index;
    sim_event *event = sim_pool_take(&sim.events, &index);
    *event = (sim_event){
        .index = index, .is_live = true, .flags = flags, .context = sim_context_of_events(context)
    };
    sim.n_events++;
    *out = (cu_event)(uintptr_t)(HANDLE_BASE + (uint64_t)index * HANDLE_STEP);
    return CU_SUCCESS;
}

sim_event *sim_event_find(cu_event handle)
{
    uint64_t value = (uint64_t)(uintptr_t)handle - HANDLE_BASE;
    if (value % HANDLE_STEP != 0 || value / HANDLE_STEP >= sim.events.n_seen) {
        return NULL;
    }
    sim_event *event = sim_pool_at(&sim.events, (uint32_t)(value / HANDLE_STEP));
    if (!event->is_live) {
        sim_hazard_check_dead("event", (uint64_t)(uintptr_t)handle, event->died_in_call);
        return NULL;
    }
    return event;
}

void sim_event_destroy(sim_event *event)
{
    sim_clock_unref(event->deps);
    event->deps = NULL;
    event->is_live = false;
    event->died_in_call = sim.call_number;
    sim.n_events--;
    uint32_t index = event->index;
    if (sim.conf.dead_handles == SIM_DEAD_ERROR || sim_quarantine_swap(&dead_events, &index)) {
        sim_pool_give(&sim.events, index);
    }
}

void sim_event_drop_context(const sim_context *context)
{
    for (uint32_t i = 0; i < sim.events.n_seen; i++) {
        sim_event *event = sim_pool_at(&sim.events, i);
        if (event->is_live && event->context == context) {
            sim_event_destroy(event);
            sim.n_lost++;
        }
    }
}

void sim_event_fini(void)
{
    for (uint32_t i = 0; i < sim.events.n_seen; i++) {
        sim_event *event = sim_pool_at(&sim.events, i);
        sim_clock_unref(event->deps);
    }
    sim_pool_fini(&sim.events);
    sim_quarantine_fini(&dead_events);
}

cu_result sim_event_record(sim_event *event, sim_stream *stream)
{
    if (event->context != sim_context_of_events(stream->context)) {
        return CU_INVALID_HANDLE;
    }
    cu_result result = sim_capture_check_use(stream);
    if (result != CU_SUCCESS) {
        return result;
    }
    sim_clock_unref(event->deps);
    event->is_recorded = true;
    event->slot = stream->slot;
    event->stamp = sim.devices[stream->context->device].n_submitted;
    if (stream->capture != NULL) {
        event->capture_id = sim_capture_id(stream->capture);
        event->position = stream->capture_position;
        event->deps = sim_clock_ref(stream->capture_deps);
        return CU_SUCCESS;
    }
    sim_stream_join_default(stream);
    (void)sim_stream_passed(&stream->deps);
    event->capture_id = 0;
    event->position = stream->submitted;
    event->deps = sim_clock_ref(stream->deps);
    return event->is_shared && !sim_event_finish(event) ? CU_NOT_READY : CU_SUCCESS;
}

bool sim_event_finish(sim_event *event)
{
    return sim_event_has_passed(event) ||
           sim_work_finish_until(sim_stream_at(event->slot), event->position, event->deps);
}

/* Destroyed streams count until their work is over. If nothing is unfinished, the event stands for
 * position 0, which has always passed. */
cu_result sim_event_record_context(sim_event *event, sim_context *context, bool is_green)
{
    sim_context *owner = is_green ? sim_context_root(event->context) : event->context;
    if (owner != (is_green ? sim_context_root(context) : sim_context_of_events(context))) {
        return CU_INVALID_HANDLE;
    }
    cu_result result = sim_capture_forbid_context(context);
    if (result != CU_SUCCESS) {
        return result;
    }
    sim_clock_unref(event->deps);
    event->deps = NULL;
    event->is_recorded = true;
    event->capture_id = 0;
    event->slot = 0;
    event->position = 0;
    event->stamp = sim.devices[context->device].n_submitted;
    sim_stream_gather_context(context, &event->deps);
    return event->is_shared && !sim_event_finish(event) ? CU_NOT_READY : CU_SUCCESS;
}

cu_result sim_event_wait(sim_stream *stream, sim_event *event)
{
    cu_result result = sim_capture_check_use(stream);
    if (result != CU_SUCCESS || !event->is_recorded) {
        return result;
    }
    if (event->capture_id != 0 || stream->capture != NULL) {
        return sim_capture_wait(stream, event);
    }
    if (sim_event_has_passed(event)) {
        return CU_SUCCESS;
    }
    if (event->position > 0 && event->slot != stream->slot &&
        sim_stream_at(event->slot)->finished < event->position) {
        sim_clock_raise(&stream->deps, event->slot, event->position);
    }
    sim_clock_join(&stream->deps, event->deps);
    return CU_SUCCESS;
}

cu_result sim_event_check(const sim_event *event)
{
    if (event->capture_id == 0) {
        return CU_SUCCESS;
    }
    sim_capture_invalidate_id(event->capture_id);
    return CU_CAPTURED_EVENT;
}

bool sim_event_has_passed(sim_event *event)
{
    if (!event->is_recorded) {
        return true;
    }
    if (event->position > 0 && sim_stream_at(event->slot)->finished < event->position) {
        return false;
    }
    return sim_stream_passed(&event->deps);
}
