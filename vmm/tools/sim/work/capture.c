/* capture.c - records captures, refuses forbidden calls, and ends captures.
 *
 * Positions of captured work count within the capture, so clocks of captured and of running streams
 * never mix. A forbidden call makes a capture invalid. Its streams then refuse commands until the
 * capture is ended on its first stream. Source: CUDA Driver API, cuThreadExchangeStreamCaptureMode,
 * cuStreamBeginCapture. */
#include "vmm/tools/sim/work/capture.h"

#include <stdlib.h>

#include "vmm/tools/sim/work/hazard.h"
#include "vmm/tools/sim/work/late.h"
#include "vmm/tools/sim/work/sim_context.h"
#include "vmm/tools/sim/work/sim_graph.h"

typedef struct capture_node {
    uint32_t slot;
    uint64_t position;
    sim_task *task; /* the program's */
} capture_node;

struct sim_capture {
    sim_capture *next;
    uint64_t id;
    int mode;
    unsigned thread;
    sim_stream *origin;
    bool is_invalidated;
    sim_graph *graph;
    capture_node *nodes;
};

uint64_t sim_capture_id(const sim_capture *capture)
{
    return capture->id;
}

cu_graph sim_capture_graph(const sim_capture *capture)
{
    return sim_graph_handle(capture->graph);
}

bool sim_capture_is_invalidated(const sim_capture *capture)
{
    return capture->is_invalidated;
}

int sim_capture_status(const sim_stream *stream)
{
    if (stream->capture == NULL) {
        return CU_CAPTURE_NONE;
    }
    return stream->capture->is_invalidated ? CU_CAPTURE_STATUS_INVALIDATED : CU_CAPTURE_ACTIVE;
}

static void enter_capture(sim_stream *stream, sim_capture *capture)
{
    stream->capture = capture;
    stream->capture_position = 0;
    stream->capture_deps = NULL;
    stream->context->n_capturing += stream->is_blocking;
}

static void exit_capture(sim_stream *stream)
{
    sim_clock_unref(stream->capture_deps);
    stream->capture_deps = NULL;
    stream->capture = NULL;
    stream->context->n_capturing -= stream->is_blocking;
}

cu_result sim_capture_begin(sim_stream *stream, int mode)
{
    if (mode < CU_CAPTURE_MODE_GLOBAL || mode > CU_CAPTURE_MODE_RELAXED) {
        return CU_INVALID_VALUE;
    }
    if (stream->is_legacy) {
        return CU_CAPTURE_UNSUPPORTED;
    }
    if (stream->capture != NULL) {
        return CU_ILLEGAL_STATE;
    }
    sim_capture *capture = sim_new(sizeof(*capture));
    capture->id = ++sim.next_capture_id;
    capture->mode = mode;
    capture->thread = sim_thread_self()->number;
    capture->origin = stream;
    capture->graph = sim_graph_begin(capture);
    capture->next = sim.captures;
    sim.captures = capture;
    enter_capture(stream, capture);
    return CU_SUCCESS;
}

/* All streams leave the capture; the graph goes to the caller. */
static sim_graph *close_capture(sim_capture *capture)
{
    sim_graph *graph = capture->graph;
    graph->capture = NULL;
    for (uint32_t slot = 0; slot < sim.streams.n_seen; slot++) {
        if (sim_stream_at(slot)->capture == capture) {
            exit_capture(sim_stream_at(slot));
        }
    }
    sim_capture **link = &sim.captures;
    while (*link != capture) {
        link = &(*link)->next;
    }
    *link = capture->next;
    free(capture->nodes);
    free(capture);
    return graph;
}

/* Is all work of the streams that joined ordered before the origin's end? */
static bool is_joined(const sim_capture *capture)
{
    const sim_stream *origin = capture->origin;
    for (uint32_t slot = 0; slot < sim.streams.n_seen; slot++) {
        const sim_stream *stream = sim_stream_at(slot);
        if (stream->capture == capture && stream != origin &&
            sim_clock_get(origin->capture_deps, slot) < stream->capture_position) {
            return false;
        }
    }
    return true;
}

cu_result sim_capture_end(sim_stream *stream, cu_graph *graph)
{
    sim_capture *capture = stream->capture;
    if (capture == NULL) {
        return CU_ILLEGAL_STATE;
    }
    if (capture->origin != stream) {
        capture->is_invalidated = true;
        return CU_CAPTURE_UNMATCHED;
    }
    if (capture->mode != CU_CAPTURE_MODE_RELAXED && capture->thread != sim_thread_self()->number) {
        return CU_CAPTURE_WRONG_THREAD;
    }
    cu_result result = CU_SUCCESS;
    if (capture->is_invalidated) {
        result = CU_CAPTURE_INVALIDATED;
    } else if (!is_joined(capture)) {
        result = CU_CAPTURE_UNJOINED;
    }
    sim_graph *made = close_capture(capture);
    if (result == CU_SUCCESS) {
        *graph = sim_graph_come_out(made);
    } else {
        sim_graph_destroy(made);
    }
    return result;
}

void sim_capture_leave(sim_stream *stream)
{
    sim_capture *capture = stream->capture;
    capture->is_invalidated = true;
    if (capture->origin == stream) {
        sim_graph_destroy(close_capture(capture));
    } else {
        exit_capture(stream);
    }
}

void sim_capture_fini(void)
{
    while (sim.captures != NULL) {
        sim_graph_destroy(close_capture(sim.captures));
    }
}

cu_result sim_capture_unsafe_call(void)
{
    const sim_thread *self = sim_thread_self();
    cu_result result = CU_SUCCESS;
    if (self->capture_mode == CU_CAPTURE_MODE_RELAXED) {
        return CU_SUCCESS;
    }
    for (sim_capture *it = sim.captures; it != NULL; it = it->next) {
        bool is_hit = it->thread == self->number ? it->mode != CU_CAPTURE_MODE_RELAXED
                                                 : it->mode == CU_CAPTURE_MODE_GLOBAL &&
                                                       self->capture_mode == CU_CAPTURE_MODE_GLOBAL;
        if (is_hit) {
            it->is_invalidated = true;
            result = CU_CAPTURE_UNSUPPORTED;
        }
    }
    return result;
}

cu_result sim_capture_check_use(sim_stream *stream)
{
    if (stream->capture != NULL && stream->capture->is_invalidated) {
        return CU_CAPTURE_INVALIDATED;
    }
    if (!stream->is_legacy || stream->context->n_capturing == 0) {
        return CU_SUCCESS;
    }
    for (uint32_t slot = 0; slot < sim.streams.n_seen; slot++) {
        sim_stream *other = sim_stream_at(slot);
        if (other->capture != NULL && other->is_blocking && other->context == stream->context) {
            other->capture->is_invalidated = true;
        }
    }
    return CU_CAPTURE_IMPLICIT;
}

cu_result sim_capture_forbid(sim_stream *stream)
{
    if (stream->capture == NULL) {
        return CU_SUCCESS;
    }
    stream->capture->is_invalidated = true;
    return CU_CAPTURE_UNSUPPORTED;
}

cu_result sim_capture_forbid_context(const sim_context *context)
{
    cu_result result = CU_SUCCESS;
    for (uint32_t slot = 0; sim.captures != NULL && slot < sim.streams.n_seen; slot++) {
        sim_stream *stream = sim_stream_at(slot);
        if (stream->capture != NULL && sim_context_covers(context, stream->context)) {
            stream->capture->is_invalidated = true;
            result = CU_CAPTURE_UNSUPPORTED;
        }
    }
    return result;
}

static sim_capture *find_capture(uint64_t id)
{
    sim_capture *it = sim.captures;
    while (it != NULL && it->id != id) {
        it = it->next;
    }
    return it;
}

void sim_capture_invalidate_id(uint64_t id)
{
    sim_capture *capture = find_capture(id);
    if (capture != NULL) {
        capture->is_invalidated = true;
    }
}

/* Looks for nodes of parallel branches that race with the next node of `stream`. */
static void check_branches(const sim_stream *stream, const sim_task *task)
{
    const sim_capture *capture = stream->capture;
    for (size_t i = 0; i < capture->graph->program->n; i++) {
        const capture_node *other = &capture->nodes[i];
        if (other->slot == stream->slot ||
            other->position <= sim_clock_get(stream->capture_deps, other->slot)) {
            continue;
        }
        const pleat_sim_access *access = sim_hazard_conflict(task->accesses, task->n,
                                                             other->task->accesses, other->task->n);
        if (access != NULL) {
            sim_hazard_add(PLEAT_SIM_RACE, access->ptr, access->bytes,
                           "two branches of capture %llu are unordered",
                           (unsigned long long)capture->id);
            return;
        }
    }
}

void sim_capture_add(sim_stream *stream, const sim_task *task)
{
    sim_capture *capture = stream->capture;
    sim_program *program = capture->graph->program;
    check_branches(stream, task);
    if (program->n == program->room) {
        program->room = program->room == 0 ? 64 : 2 * program->room;
        program->tasks = sim_grow(program->tasks, program->room * sizeof(sim_task *));
        capture->nodes = sim_grow(capture->nodes, program->room * sizeof(capture->nodes[0]));
    }
    sim_late_note_user(stream, task);
    (void)sim_late_check(stream, task);
    sim_task *copy = sim_task_capture(task);
    stream->capture_position++;
    program->tasks[program->n] = copy;
    capture->nodes[program->n] = (capture_node){ stream->slot, stream->capture_position, copy };
    program->n++;
}

/* `stream` is not captured yet. Waiting for the event brings the stream into the capture. */
static cu_result join_capture(sim_stream *stream, const sim_event *event, sim_capture *capture)
{
    if (capture == NULL) {
        return CU_CAPTURED_EVENT; /* that capture is over */
    }
    if (capture->is_invalidated) {
        return CU_CAPTURE_INVALIDATED;
    }
    if (stream->is_legacy) {
        capture->is_invalidated = true;
        return CU_CAPTURE_IMPLICIT;
    }
    enter_capture(stream, capture);
    if (event->slot != stream->slot) {
        sim_clock_raise(&stream->capture_deps, event->slot, event->position);
    }
    sim_clock_join(&stream->capture_deps, event->deps);
    return CU_SUCCESS;
}

cu_result sim_capture_wait(sim_stream *stream, const sim_event *event)
{
    sim_capture *capture = event->capture_id == 0 ? NULL : find_capture(event->capture_id);
    if (stream->capture == NULL) {
        return join_capture(stream, event, capture);
    }
    if (event->capture_id == 0) {
        stream->capture->is_invalidated = true;
        return CU_CAPTURE_ISOLATION; /* the graph would depend on work outside of the graph */
    }
    if (capture != stream->capture) {
        stream->capture->is_invalidated = true;
        if (capture != NULL) {
            capture->is_invalidated = true;
        }
        return CU_CAPTURE_MERGE;
    }
    if (event->slot != stream->slot) {
        sim_clock_raise(&stream->capture_deps, event->slot, event->position);
    }
    sim_clock_join(&stream->capture_deps, event->deps);
    return CU_SUCCESS;
}
