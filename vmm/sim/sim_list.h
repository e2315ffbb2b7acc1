/* sim_list.h - every entry point of the simulated driver: those that pleat calls, those that only
 * other programs on the simulator need (vmm/runtime/), and one without arguments, which does not
 * fit pleat's wrappers. Form: driver_list.h. */
#ifndef PLEAT_SIM_LIST_H
#define PLEAT_SIM_LIST_H

#include "vmm/driver_list.h"

/* A handle for other processes, of memory or of an event. */
typedef struct cu_ipc_handle {
    char reserved[64];
} cu_ipc_handle;

/* clang-format off */
#define SIM_FURTHER_LIST(X) \
    X(ctx_synchronize, cuCtxSynchronize, OPTIONAL, (void), ()) \
    X(graph_get_nodes, cuGraphGetNodes, OPTIONAL, \
      (cu_graph graph, cu_graph_node *nodes, size_t *n), (graph, nodes, n)) \
    X(ipc_mem_get, cuIpcGetMemHandle, OPTIONAL, (cu_ipc_handle *handle, cu_devptr ptr), \
      (handle, ptr)) \
    X(ipc_mem_open, cuIpcOpenMemHandle_v2, OPTIONAL, \
      (cu_devptr *ptr, cu_ipc_handle handle, unsigned flags), (ptr, handle, flags)) \
    X(ipc_mem_close, cuIpcCloseMemHandle, OPTIONAL, (cu_devptr ptr), (ptr)) \
    X(ipc_event_get, cuIpcGetEventHandle, OPTIONAL, (cu_ipc_handle *handle, cu_event event), \
      (handle, event)) \
    X(ipc_event_open, cuIpcOpenEventHandle, OPTIONAL, (cu_event *event, cu_ipc_handle handle), \
      (event, handle)) \
    X(pointer_attribute, cuPointerGetAttribute, OPTIONAL, \
      (void *value, int attribute, cu_devptr ptr), (value, attribute, ptr))
/* clang-format on */

#define SIM_LIST(X) PL_DRIVER_LIST(X) SIM_FURTHER_LIST(X)

#endif
