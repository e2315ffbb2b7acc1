/* sim_stream.c - handles, ids, default streams, and the order that default streams imply.
 *
 * A handle is recycled at once, last destroyed first, even if work is pending. With
 * dead_handles:hazard or crash the handle stays dead for long. An id is never recycled. The stream
 * object lives on in its slot until its work has finished (S4, sim_stream.h). The legacy stream
 * waits for all earlier work of its context's blocking streams, and their later work waits for the
 * legacy stream. */
#include "vmm/tools/sim/work/sim_stream.h"

#include <stdlib.h>
#include <string.h>

#include "vmm/tools/sim/work/capture.h"
#include "vmm/tools/sim/work/hazard.h"
#include "vmm/tools/sim/work/sim_context.h"

/* Handles only look like pointers. They are a base and a step per number. */
#define HANDLE_BASE UINT64_C(0x510000000000)
enum { HANDLE_STEP = 256 };

static struct {
    uint32_t *slots; /* by handle number; UINT32_MAX: free */
    uint64_t *died;  /* by handle number: the call that destroyed the handle */
    uint32_t n;
    uint32_t *free_numbers;
    uint32_t n_free;
    sim_quarantine dead; /* unless dead_handles:error */
} handles;

static uint32_t take_number(void)
{
    if (handles.n_free > 0) {
        return handles.free_numbers[--handles.n_free];
    }
    uint32_t n = handles.n + 1;
    handles.slots = sim_grow(handles.slots, n * sizeof(handles.slots[0]));
    handles.died = sim_grow(handles.died, n * sizeof(handles.died[0]));
    handles.free_numbers = sim_grow(handles.free_numbers, n * sizeof(handles.free_numbers[0]));
    return handles.n++;
}

static void free_number(uint32_t number)
{
    handles.slots[number] = UINT32_MAX;
    handles.died[number] = sim.call_number;
    if (sim.conf.dead_handles == SIM_DEAD_ERROR || sim_quarantine_swap(&handles.dead, &number)) {
        handles.free_numbers[handles.n_free++] = number;
    }
}

static uint32_t number_of(cu_stream handle)
{
    uint64_t value = (uint64_t)(uintptr_t)handle - HANDLE_BASE;
    uint64_t number = value / HANDLE_STEP;
    return value % HANDLE_STEP == 0 && number < handles.n ? (uint32_t)number : UINT32_MAX;
}

/* Makes a stream in a free slot; positions continue from the slot's last stream. */
static sim_stream *make_stream(sim_context *context, bool is_blocking)
{
    uint32_t slot;
    sim_stream *stream = sim_pool_take(&sim.streams, &slot);
    stream->slot = slot;
    stream->context = context;
    stream->generation = context->generation;
    stream->id = ++sim.next_stream_id;
    stream->is_live = true;
    stream->is_blocking = is_blocking;
    stream->is_legacy = false;
    stream->is_detached = false;
    stream->thread = 0;
    stream->priority = 0;
    stream->handle = NULL;
    return stream;
}

sim_stream *sim_stream_legacy(sim_context *context)
{
    bool is_green = context->primary != NULL; /* its streams are all non-blocking */
    if (context->legacy == NULL) {
        context->legacy = make_stream(context, !is_green);
        context->legacy->is_legacy = !is_green;
    }
    return context->legacy;
}

/* A thread knows its streams in primary contexts. Its streams in created contexts are searched. */
static sim_stream *thread_stream_in(sim_context *context)
{
    unsigned thread = sim_thread_self()->number;
    for (uint32_t slot = 0; slot < sim.streams.n_seen; slot++) {
        sim_stream *stream = sim_stream_at(slot);
        if (stream->is_live && stream->context == context && stream->thread == thread) {
            return stream;
        }
    }
    sim_stream *stream = make_stream(context, true);
    stream->handle = CU_STREAM_PER_THREAD;
    stream->thread = thread;
    return stream;
}

static sim_stream *per_thread_stream(sim_context *context)
{
    sim_thread *self = sim_thread_self();
    int i = context->device;
    if (!sim_context_is_primary(context)) {
        return thread_stream_in(context);
    }
    if (self->streams[i].stream == NULL || self->streams[i].generation != context->generation) {
        self->streams[i].stream = make_stream(context, true);
        self->streams[i].generation = context->generation;
        self->streams[i].stream->handle = CU_STREAM_PER_THREAD;
    }
    return self->streams[i].stream;
}

sim_stream *sim_stream_peek(cu_stream handle)
{
    uint32_t number = number_of(handle);
    bool is_live = number != UINT32_MAX && handles.slots[number] != UINT32_MAX;
    return is_live ? sim_stream_at(handles.slots[number]) : NULL;
}

cu_result sim_stream_find(cu_stream handle, sim_stream **out)
{
    if (handle == NULL || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
        sim_context *context;
        cu_result result = sim_context_current(&context);
        if (result == CU_SUCCESS) {
            *out = handle == CU_STREAM_PER_THREAD ? per_thread_stream(context)
                                                  : sim_stream_legacy(context);
        }
        return result;
    }
    uint32_t number = number_of(handle);
    if (number == UINT32_MAX) {
        return CU_INVALID_HANDLE;
    }
    if (handles.slots[number] == UINT32_MAX) {
        sim_hazard_check_dead("stream", (uint64_t)(uintptr_t)handle, handles.died[number]);
        return CU_INVALID_HANDLE;
    }
    *out = sim_stream_at(handles.slots[number]);
    return (*out)->is_detached ? CU_STREAM_DETACHED : CU_SUCCESS;
}

cu_result sim_stream_create(sim_context *context, unsigned flags, int priority, cu_stream *out)
{
    bool is_blocking_green = context->primary != NULL && flags == CU_STREAM_DEFAULT_FLAG;
    if (out == NULL || flags > CU_STREAM_NON_BLOCKING_FLAG || is_blocking_green) {
        return CU_INVALID_VALUE;
    }
    sim_stream *stream = make_stream(context, flags == CU_STREAM_DEFAULT_FLAG);
    uint32_t number = take_number();
    stream->priority = priority > 0                       ? 0
                       : priority < SIM_PRIORITY_GREATEST ? SIM_PRIORITY_GREATEST
                                                          : priority;
    handles.slots[number] = stream->slot;
    stream->handle = (cu_stream)(uintptr_t)(HANDLE_BASE + (uint64_t)number * HANDLE_STEP);
    sim.n_streams++;
    *out = stream->handle;
    return CU_SUCCESS;
}

void sim_stream_settle(sim_stream *stream)
{
    if (!stream->is_live && sim_stream_is_idle(stream)) {
        sim_clock_unref(stream->deps);
        stream->deps = NULL;
        sim_pool_give(&sim.streams, stream->slot);
    }
}

void sim_stream_destroy(sim_stream *stream)
{
    uint32_t number = number_of(stream->handle);
    if (stream->capture != NULL) {
        sim_capture_leave(stream);
    }
    if (number != UINT32_MAX) {
        free_number(number);
        sim.n_streams--;
    }
    stream->is_live = false;
    sim_stream_settle(stream);
}

void sim_stream_detach_context(sim_context *context)
{
    for (uint32_t slot = 0; slot < sim.streams.n_seen; slot++) {
        sim_stream *stream = sim_stream_at(slot);
        if (!stream->is_live || stream->context != context) {
            continue;
        }
        if (stream == context->legacy) {
            sim_stream_destroy(stream);
            continue;
        }
        if (stream->capture != NULL) {
            sim_capture_leave(stream);
        }
        stream->is_detached = true;
    }
    context->legacy = NULL;
}

void sim_stream_drop_context(sim_context *context)
{
    for (uint32_t slot = 0; slot < sim.streams.n_seen; slot++) {
        sim_stream *stream = sim_stream_at(slot);
        if (stream->is_live && sim_context_root(stream->context) == context) {
            sim.n_lost += number_of(stream->handle) != UINT32_MAX;
            sim_stream_destroy(stream);
        }
    }
    context->legacy = NULL;
}

void sim_stream_fini(void)
{
    for (uint32_t slot = 0; slot < sim.streams.n_seen; slot++) {
        sim_stream *stream = sim_stream_at(slot);
        for (uint64_t p = stream->finished + 1; p <= stream->submitted; p++) {
            sim_op *op = sim_stream_op(stream, p);
            sim_clock_unref(op->deps);
            sim_task_free(op->task);
        }
        sim_clock_unref(stream->deps);
        sim_clock_unref(stream->capture_deps);
        free(stream->ring);
    }
    sim_pool_fini(&sim.streams);
    free(handles.slots);
    free(handles.died);
    free(handles.free_numbers);
    sim_quarantine_fini(&handles.dead);
    memset(&handles, 0, sizeof(handles));
}

bool sim_stream_passed(sim_clock **clock)
{
    const sim_clock *it = *clock;
    if (it == NULL) {
        return true;
    }
    for (uint32_t i = 0; i < it->n; i++) {
        if (sim_stream_at(it->ticks[i].slot)->finished < it->ticks[i].position) {
            return false;
        }
    }
    sim_clock_unref(*clock);
    *clock = NULL;
    return true;
}

void sim_stream_gather(sim_stream *stream, sim_clock **clock)
{
    if (!sim_stream_is_idle(stream)) {
        sim_clock_raise(clock, stream->slot, stream->submitted);
    }
    if (!sim_stream_passed(&stream->deps)) {
        sim_clock_join(clock, stream->deps);
    }
}

void sim_stream_gather_context(const sim_context *context, sim_clock **clock)
{
    for (uint32_t slot = 0; slot < sim.streams.n_seen; slot++) {
        sim_stream *stream = sim_stream_at(slot);
        if (sim_context_covers(context, stream->context)) {
            sim_stream_gather(stream, clock);
        }
    }
}

void sim_stream_join_default(sim_stream *stream)
{
    sim_context *context = stream->context;
    if (!stream->is_blocking) {
        return;
    }
    if (!stream->is_legacy) {
        if (context->legacy != NULL) {
            sim_stream_gather(context->legacy, &stream->deps);
        }
        return;
    }
    for (uint32_t slot = 0; slot < sim.streams.n_seen; slot++) {
        sim_stream *other = sim_stream_at(slot);
        if (other != stream && other->is_blocking && other->context == context) {
            sim_stream_gather(other, &stream->deps);
        }
    }
}
