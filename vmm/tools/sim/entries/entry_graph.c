/* entry_graph.c - exported calls: graphs, and the user objects held by graphs.
 *
 * A graph under capture may get and lose references, but cannot be destroyed or instantiated. The
 * vendor permits instantiation during a capture, but does not describe the result. */
#include "vmm/tools/sim/entries/call.h"
#include "vmm/tools/sim/work/sim_graph.h"

cu_result cuGraphDestroy(cu_graph graph)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_graph_destroy, sim_arg(graph), 0, 0, 0);
    sim_graph *it = sim_graph_find(graph);
    if (call.result == CU_SUCCESS && it == NULL) {
        call.result = CU_INVALID_VALUE;
    } else if (call.result == CU_SUCCESS) {
        sim_graph_destroy(it);
    }
    return sim_call_end(&call);
}

cu_result cuGraphInstantiateWithFlags(cu_graph_exec *exec, cu_graph graph, unsigned long long flags)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_graph_instantiate, 0, sim_arg(graph), flags, 0);
    sim_graph *it = sim_graph_find(graph);
    if (call.result == CU_SUCCESS && (exec == NULL || it == NULL)) {
        call.result = CU_INVALID_VALUE;
    } else if (call.result == CU_SUCCESS) {
        *exec = sim_graph_instantiate(it);
        call.args[0] = sim_arg(*exec);
    }
    return sim_call_end(&call);
}

/* A node per kernel, copy and fill. A node's handle only identifies the node. *n is the room in
 * `nodes`, then the number written. Without `nodes`, *n becomes the number of nodes. */
cu_result cuGraphGetNodes(cu_graph graph, cu_graph_node *nodes, size_t *n)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_graph_get_nodes, sim_arg(graph), 0, 0, 0);
    const sim_graph *it = sim_graph_find_growing(graph);
    if (call.result == CU_SUCCESS && (it == NULL || n == NULL)) {
        call.result = CU_INVALID_VALUE;
    } else if (call.result == CU_SUCCESS) {
        size_t n_nodes = it->program->n;
        for (size_t i = 0; nodes != NULL && i < *n; i++) {
            nodes[i] = i < n_nodes ? (cu_graph_node)it->program->tasks[i] : NULL;
        }
        *n = nodes == NULL || n_nodes < *n ? n_nodes : *n;
        call.args[2] = *n;
    }
    return sim_call_end(&call);
}

static cu_result launch(cu_graph_exec exec, cu_stream handle)
{
    sim_stream *stream;
    const sim_graph *graph = sim_graph_find_exec(exec);
    cu_result result = graph == NULL ? CU_INVALID_VALUE : sim_stream_find(handle, &stream);
    if (result == CU_SUCCESS) {
        result = sim_capture_check_use(stream);
    }
    if (result == CU_SUCCESS) {
        result = sim_capture_forbid(stream); /* no graphs within graphs */
    }
    return result == CU_SUCCESS ? sim_graph_launch(graph, stream) : result;
}

cu_result cuGraphLaunch(cu_graph_exec exec, cu_stream stream)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_graph_launch, sim_arg(exec), sim_arg(stream), 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = launch(exec, stream);
    }
    return sim_call_end(&call);
}

cu_result cuGraphExecDestroy(cu_graph_exec exec)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_graph_exec_destroy, sim_arg(exec), 0, 0, 0);
    sim_graph *it = sim_graph_find_exec(exec);
    if (call.result == CU_SUCCESS && it == NULL) {
        call.result = CU_INVALID_VALUE;
    } else if (call.result == CU_SUCCESS) {
        sim_graph_destroy(it);
    }
    return sim_call_end(&call);
}

cu_result cuUserObjectCreate(cu_user_object *object, void *ptr, cu_host_fn destroy, unsigned n,
                             unsigned flags)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_user_object_create, 0, sim_arg(ptr), n, flags);
    if (call.result == CU_SUCCESS) {
        call.result = sim_user_object_create(object, ptr, destroy, n, flags);
    }
    if (call.result == CU_SUCCESS) {
        call.args[0] = sim_arg(*object);
    }
    return sim_call_end(&call);
}

cu_result cuUserObjectRetain(cu_user_object object, unsigned n)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_user_object_retain, sim_arg(object), n, 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = sim_user_object_retain(object, n);
    }
    return sim_call_end(&call);
}

cu_result cuUserObjectRelease(cu_user_object object, unsigned n)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_user_object_release, sim_arg(object), n, 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = sim_user_object_release(object, n);
    }
    return sim_call_end(&call);
}

cu_result cuGraphRetainUserObject(cu_graph graph, cu_user_object object, unsigned n, unsigned flags)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_graph_retain_user_object, sim_arg(graph), sim_arg(object), n,
                   flags);
    sim_graph *it = sim_graph_find_growing(graph);
    if (call.result == CU_SUCCESS) {
        call.result = it == NULL ? CU_INVALID_VALUE
                                 : sim_holds_retain(&it->holds, object, n, flags);
    }
    return sim_call_end(&call);
}

cu_result cuGraphReleaseUserObject(cu_graph graph, cu_user_object object, unsigned n)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_graph_release_user_object, sim_arg(graph), sim_arg(object), n, 0);
    sim_graph *it = sim_graph_find_growing(graph);
    if (call.result == CU_SUCCESS) {
        call.result = it == NULL ? CU_INVALID_VALUE : sim_holds_release(it->holds, object, n);
    }
    return sim_call_end(&call);
}
