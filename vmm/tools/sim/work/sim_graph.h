/* sim_graph.h - captured graphs and their executable forms, which share the captured program.
 *
 * A graph exists from the beginning of its capture, so that it can be given user objects. Only
 * after the capture can a graph be counted, destroyed and instantiated. */
#ifndef PLEAT_SIM_GRAPH_H
#define PLEAT_SIM_GRAPH_H

#include "vmm/tools/sim/work/capture.h"
#include "vmm/tools/sim/work/user_object.h"

/* The work of a graph in an order that respects its dependencies. Graph and execs share the
 * program. */
typedef struct sim_program {
    uint32_t refs;
    size_t n;
    size_t room;
    sim_task **tasks;
} sim_program;

typedef struct sim_graph {
    uint32_t index;
    bool is_live;
    bool is_exec;
    bool is_out;                /* the capture is over, so the graph is counted */
    const sim_capture *capture; /* in progress, or NULL */
    sim_program *program;
    sim_holds *holds; /* NULL: none */
} sim_graph;

/* Makes an empty graph that `capture` fills. When the capture ends, the graph comes out or is
 * destroyed. */
sim_graph *sim_graph_begin(const sim_capture *capture);
cu_graph sim_graph_come_out(sim_graph *graph);
cu_graph sim_graph_handle(const sim_graph *graph);

/* NULL: no such graph. sim_graph_find ignores graphs under capture. sim_graph_find_growing finds
 * them too, unless their capture is invalid. */
sim_graph *sim_graph_find(cu_graph handle);
sim_graph *sim_graph_find_growing(cu_graph handle);
sim_graph *sim_graph_find_exec(cu_graph_exec handle);

cu_graph_exec sim_graph_instantiate(const sim_graph *graph);
void sim_graph_destroy(sim_graph *graph); /* takes executable graphs, too */
cu_result sim_graph_launch(const sim_graph *exec, sim_stream *stream);
void sim_graph_fini(void);

#endif
