/* sim_ipc.h - handles for other processes of the same user, to open linear memory and events.
 *
 *   0       16     20    24    28     32      40      48      56       64
 *   | magic | kind | pid | fd  | zero | inode | device | bytes | zeros |
 *
 * A handle gives no access by itself. It names the memory's token (token.h), a descriptor of the
 * exporting process: /proc/PID/fd/N. The same user may open the token while the memory is allocated
 * in the exporting process. A different file under the number is recognised.
 *
 * P1  memory that was opened is foreign and linear, has one mapping, and n_opens > 0; its reference
 *     is the mapping's
 * P2  work before a shared event is over once it is recorded, so a copy of it in another process
 *     need not be told anything: it has always passed */
#ifndef PLEAT_SIM_IPC_H
#define PLEAT_SIM_IPC_H

#include "vmm/tools/sim/memory/memory.h"
#include "vmm/tools/sim/sim_list.h"
#include "vmm/tools/sim/work/sim_event.h"

enum { SIM_IPC_LAZY_PEERS = 1 }; /* the flag that cuIpcOpenMemHandle asks for */

/* CU_SUCCESS; INVALID_VALUE (not cuMemAlloc's memory of this process); OPERATING_SYSTEM. */
cu_result sim_ipc_get_memory(cu_ipc_handle *handle, uint64_t ptr);
/* CU_SUCCESS, INVALID_VALUE (flags), INVALID_HANDLE (no handle, or its memory is gone),
 * INVALID_CONTEXT (of this process), INVALID_DEVICE (out of the context's reach), OUT_OF_MEMORY
 * (addresses, mappings) or OPERATING_SYSTEM. */
cu_result sim_ipc_open_memory(const sim_context *context, const cu_ipc_handle *handle,
                              unsigned flags, cu_devptr *ptr);
/* The mapping of opened memory that starts at `ptr`, or NULL. */
sim_mapping *sim_ipc_find(uint64_t ptr);
/* Closes one opening; the last close unmaps. */
void sim_ipc_close_memory(sim_mapping *mapping);

/* CU_SUCCESS, INVALID_VALUE, INVALID_HANDLE (not made for other processes) or NOT_READY (earlier
 * work can never finish). */
cu_result sim_ipc_get_event(cu_ipc_handle *handle, sim_event *event);
/* CU_SUCCESS, INVALID_VALUE, INVALID_HANDLE or INVALID_CONTEXT (of this process). */
cu_result sim_ipc_open_event(sim_context *context, const cu_ipc_handle *handle, cu_event *out);

#endif
