/* graph.h - captured graphs and their executable forms: both share the captured program. */
#ifndef PLEAT_SIM_GRAPH_H
#define PLEAT_SIM_GRAPH_H

#include "vmm/sim/capture.h"

typedef struct sim_graph {
    uint32_t index;
    bool is_live;
    bool is_exec;
    sim_program *program;
} sim_graph;

/* Takes over the program's reference. Returns the handle, as the number behind it. */
uint64_t sim_graph_make(sim_program *program, bool is_exec);
sim_graph *sim_graph_find(uint64_t handle, bool is_exec);
void sim_graph_destroy(sim_graph *graph);
cu_result sim_graph_launch(const sim_graph *exec, sim_stream *stream);
void sim_graph_fini(void);

#endif
