/* graph_watch.h - tells when a graph, all its executables and all their launches are gone.
 *
 * A graph under capture is given a user object. The driver calls the object's destructor after the
 * last reference, held by the graph, its executables or an unfinished launch. Source: CUDA
 * Programming Guide, user objects. NCCL has user objects within captures, too
 * (ncclCudaGraphAddDestructor). */
#ifndef PLEAT_VMM_GRAPH_WATCH_H
#define PLEAT_VMM_GRAPH_WATCH_H

#include "vmm/device.h"

typedef struct pl_graph_watch pl_graph_watch;

/** Watch a graph that is being captured.
 *
 *  Params   graph from pl_stream_capture.
 *  Returns  PLEAT_OK; ENOTSUP (the driver is older than CUDA 11.3); ENOMEM_HOST; EDRIVER.
 *  Failure  nobody is told; the capture is not disturbed.
 *  Owner    the caller, until pl_graph_watch_end; it may outlive the device.
 *  Blocks   on two short driver calls. */
pleat_status pl_graph_watch_begin(pl_device *dev, void *graph, pl_graph_watch **out);

bool pl_graph_watch_is_gone(const pl_graph_watch *watch);
void pl_graph_watch_end(pl_graph_watch *watch); /* NULL is fine */

/* Graphs gone in this process so far. While the number stays, no watch has news. */
uint64_t pl_graph_watch_n_gone(void);

#endif
