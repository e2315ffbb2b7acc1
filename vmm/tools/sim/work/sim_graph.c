/* sim_graph.c - a launch submits the captured work to one stream, in captured order.
 *
 * So branches of a graph never overlap in a launch. Races between branches are found during the
 * capture (capture.c). Addresses come from the capture and are checked again at each launch. A
 * launch keeps the user objects of the executable graph until it is over, even if the graph is
 * destroyed before. */
#include "vmm/tools/sim/work/sim_graph.h"

#include <stdlib.h>

#define HANDLE_BASE UINT64_C(0x530000000000)
enum { HANDLE_STEP = 64 };

static uint64_t value_of(const sim_graph *graph)
{
    return HANDLE_BASE + (uint64_t)graph->index * HANDLE_STEP;
}

static sim_graph *make_graph(sim_program *program)
{
    uint32_t index;
    sim_graph *graph = sim_pool_take(&sim.graphs, &index);
    *graph = (sim_graph){ .index = index, .is_live = true, .program = program };
    return graph;
}

sim_graph *sim_graph_begin(const sim_capture *capture)
{
    sim_program *program = sim_new(sizeof(*program));
    program->refs = 1;
    sim_graph *graph = make_graph(program);
    graph->capture = capture;
    return graph;
}

cu_graph sim_graph_come_out(sim_graph *graph)
{
    graph->is_out = true;
    sim.n_graphs++;
    return sim_graph_handle(graph);
}

cu_graph sim_graph_handle(const sim_graph *graph)
{
    return (cu_graph)(uintptr_t)value_of(graph);
}

static sim_graph *find_live(uint64_t handle, bool is_exec)
{
    uint64_t value = handle - HANDLE_BASE;
    if (value % HANDLE_STEP != 0 || value / HANDLE_STEP >= sim.graphs.n_seen) {
        return NULL;
    }
    sim_graph *graph = sim_pool_at(&sim.graphs, (uint32_t)(value / HANDLE_STEP));
    return graph->is_live && graph->is_exec == is_exec ? graph : NULL;
}

sim_graph *sim_graph_find(cu_graph handle)
{
    sim_graph *graph = find_live((uint64_t)(uintptr_t)handle, false);
    return graph != NULL && graph->is_out ? graph : NULL;
}

sim_graph *sim_graph_find_growing(cu_graph handle)
{
    sim_graph *graph = find_live((uint64_t)(uintptr_t)handle, false);
    bool is_broken = graph != NULL && graph->capture != NULL &&
                     sim_capture_is_invalidated(graph->capture);
    return is_broken ? NULL : graph;
}

sim_graph *sim_graph_find_exec(cu_graph_exec handle)
{
    return find_live((uint64_t)(uintptr_t)handle, true);
}

cu_graph_exec sim_graph_instantiate(const sim_graph *graph)
{
    graph->program->refs++;
    sim_graph *exec = make_graph(graph->program);
    exec->is_exec = true;
    exec->is_out = true;
    exec->holds = sim_holds_clone(graph->holds);
    sim.n_graphs++;
    return (cu_graph_exec)(uintptr_t)value_of(exec);
}

static void unref_program(sim_program *program)
{
    if (--program->refs > 0) {
        return;
    }
    for (size_t i = 0; i < program->n; i++) {
        free(program->tasks[i]);
    }
    free(program->tasks);
    free(program);
}

void sim_graph_destroy(sim_graph *graph)
{
    unref_program(graph->program);
    sim_holds_unref(graph->holds);
    graph->program = NULL;
    graph->holds = NULL;
    graph->is_live = false;
    sim.n_graphs -= graph->is_out;
    sim_pool_give(&sim.graphs, graph->index);
}

cu_result sim_graph_launch(const sim_graph *exec, sim_stream *stream)
{
    for (size_t i = 0; i < exec->program->n; i++) {
        const sim_task *task = exec->program->tasks[i];
        sim_work_submit(stream, task, task->kind != SIM_TASK_WRITE_VALUE);
    }
    if (exec->holds != NULL) {
        sim_task end = { .kind = SIM_TASK_LAUNCH_END, .holds = sim_holds_ref(exec->holds) };
        sim_work_submit(stream, &end, false);
    }
    return CU_SUCCESS;
}

void sim_graph_fini(void)
{
    for (uint32_t i = 0; i < sim.graphs.n_seen; i++) {
        sim_graph *graph = sim_pool_at(&sim.graphs, i);
        if (graph->is_live) {
            sim_graph_destroy(graph);
        }
    }
    sim_pool_fini(&sim.graphs);
}
