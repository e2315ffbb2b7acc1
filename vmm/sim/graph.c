/* graph.c - a launch submits the captured work to one stream, in captured order.
 *
 * Branches of a graph therefore never overlap when it runs; races between them are found when they
 * are captured (capture.c). Addresses are those of the capture, checked anew at each launch. */
#include "vmm/sim/graph.h"

#define HANDLE_BASE UINT64_C(0x530000000000)
enum { HANDLE_STEP = 64 };

uint64_t sim_graph_make(sim_program *program, bool is_exec)
{
    uint32_t index;
    sim_graph *graph = sim_pool_take(&sim.graphs, &index);
    *graph = (sim_graph){ .index = index, .is_live = true, .is_exec = is_exec, .program = program };
    sim.n_graphs++;
    return HANDLE_BASE + (uint64_t)index * HANDLE_STEP;
}

sim_graph *sim_graph_find(uint64_t handle, bool is_exec)
{
    uint64_t value = handle - HANDLE_BASE;
    if (value % HANDLE_STEP != 0 || value / HANDLE_STEP >= sim.graphs.n_seen) {
        return NULL;
    }
    sim_graph *graph = sim_pool_at(&sim.graphs, (uint32_t)(value / HANDLE_STEP));
    return graph->is_live && graph->is_exec == is_exec ? graph : NULL;
}

void sim_graph_destroy(sim_graph *graph)
{
    sim_program_unref(graph->program);
    graph->program = NULL;
    graph->is_live = false;
    sim.n_graphs--;
    sim_pool_give(&sim.graphs, graph->index);
}

cu_result sim_graph_launch(const sim_graph *exec, sim_stream *stream)
{
    for (size_t i = 0; i < exec->program->n; i++) {
        const sim_task *task = exec->program->tasks[i];
        sim_work_submit(stream, task, task->kind != SIM_TASK_WRITE64);
    }
    return CU_SUCCESS;
}

void sim_graph_fini(void)
{
    for (uint32_t i = 0; i < sim.graphs.n_seen; i++) {
        sim_graph *graph = sim_pool_at(&sim.graphs, i);
        if (graph->is_live) {
            sim_program_unref(graph->program);
        }
    }
    sim_pool_fini(&sim.graphs);
}
