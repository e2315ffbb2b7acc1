/* runtime_graph.c - captures, and the graphs they make. What the nodes of a graph are is not
 * told. */
#include "vmm/tools/runtime/known.h"
#include "vmm/tools/runtime/runtime.h"

bool rt_is_capturing(cu_stream stream)
{
    int status = CU_CAPTURE_NONE;
    return cuStreamIsCapturing(stream, &status) == CU_SUCCESS && status != CU_CAPTURE_NONE;
}

rt_error cudaStreamBeginCapture(cu_stream stream, int mode)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = cuStreamBeginCapture_v2(stream, mode);
    }
    return rt_end(__func__, result);
}

rt_error cudaStreamEndCapture(cu_stream stream, cu_graph *graph)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = cuStreamEndCapture(stream, graph);
    }
    return rt_end(__func__, result);
}

rt_error cudaStreamIsCapturing(cu_stream stream, int *status)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = cuStreamIsCapturing(stream, status);
    }
    return rt_end(__func__, result);
}

rt_error cudaStreamGetCaptureInfo(cu_stream stream, int *status, unsigned long long *id,
                                  cu_graph *graph, const cu_graph_node **deps, const void **edges,
                                  size_t *n_deps)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = cuStreamGetCaptureInfo_v2(stream, status, id, graph, deps, n_deps);
    }
    if (result == CU_SUCCESS && edges != NULL) {
        *edges = NULL;
    }
    return rt_end(__func__, result);
}

rt_error cudaThreadExchangeStreamCaptureMode(int *mode)
{
    cu_result result = rt_init();
    if (result == CU_SUCCESS) {
        result = cuThreadExchangeStreamCaptureMode(mode);
    }
    return rt_end(__func__, result);
}

rt_error cudaGraphInstantiateWithFlags(cu_graph_exec *exec, cu_graph graph,
                                       unsigned long long flags)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = cuGraphInstantiateWithFlags(exec, graph, flags);
    }
    return rt_end(__func__, result);
}

rt_error cudaGraphLaunch(cu_graph_exec exec, cu_stream stream)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        rt_known_forget_all(); /* of its kernels */
        result = cuGraphLaunch(exec, stream);
    }
    return rt_end(__func__, result);
}

rt_error cudaGraphDestroy(cu_graph graph)
{
    return rt_end(__func__, cuGraphDestroy(graph));
}

rt_error cudaGraphExecDestroy(cu_graph_exec exec)
{
    return rt_end(__func__, cuGraphExecDestroy(exec));
}

rt_error cudaGraphGetNodes(cu_graph graph, cu_graph_node *nodes, size_t *n)
{
    return rt_end(__func__, cuGraphGetNodes(graph, nodes, n));
}

rt_error cudaGraphNodeGetDependencies(cu_graph_node node, cu_graph_node *deps, void *edges,
                                      size_t *n)
{
    (void)node;
    (void)deps;
    (void)edges;
    (void)n;
    return rt_unsupported(__func__);
}

rt_error cudaGraphDebugDotPrint(cu_graph graph, const char *path, unsigned flags)
{
    (void)graph;
    (void)path;
    (void)flags;
    return rt_unsupported(__func__);
}
