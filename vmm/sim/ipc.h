/* ipc.h - handles by which other processes of the same user open linear memory and events.
 *
 *   0       16     20    24    28     32      40      48      56       64
 *   | magic | kind | pid | fd  | zero | inode | device | bytes | zeros |
 *
 * A handle gives no access by itself: it tells where the memory's token (token.h) is among the
 * descriptors of the process that made it, /proc/PID/fd/N, which that user may open while the
 * memory is allocated there. Another file under that number is recognised.
 *
 * P1  memory that was opened is foreign and linear, has one mapping, and n_opens > 0; its reference
 *     is the mapping's
 * P2  work before a shared event is over once it is recorded, so a copy of it in another process
 *     need not be told anything: it has always passed */
#ifndef PLEAT_SIM_IPC_H
#define PLEAT_SIM_IPC_H

#include "vmm/sim/event.h"
#include "vmm/sim/memory.h"
#include "vmm/sim/sim_list.h"

enum { SIM_IPC_LAZY_PEERS = 1 }; /* the flag that cuIpcOpenMemHandle asks for */

/* CU_SUCCESS; INVALID_VALUE (no memory of cuMemAlloc of this process); OPERATING_SYSTEM. */
cu_result sim_ipc_get_memory(cu_ipc_handle *handle, uint64_t ptr);
/* CU_SUCCESS; INVALID_VALUE (flags); INVALID_HANDLE (no handle, or no memory behind it any more);
 * INVALID_CONTEXT (of this process); INVALID_DEVICE (out of the context's reach); OUT_OF_MEMORY
 * (addresses, mappings); OPERATING_SYSTEM. */
cu_result sim_ipc_open_memory(const sim_context *context, const cu_ipc_handle *handle,
                              unsigned flags, cu_devptr *ptr);
/* The mapping of opened memory that starts at `ptr`, or NULL. */
sim_mapping *sim_ipc_find(uint64_t ptr);
/* Closes it once; the last time it goes. */
void sim_ipc_close_memory(sim_mapping *mapping);

/* CU_SUCCESS; INVALID_VALUE; INVALID_HANDLE (not made for other processes); NOT_READY (work before
 * it can never finish). */
cu_result sim_ipc_get_event(cu_ipc_handle *handle, sim_event *event);
/* CU_SUCCESS; INVALID_VALUE; INVALID_HANDLE; INVALID_CONTEXT (of this process). */
cu_result sim_ipc_open_event(sim_context *context, const cu_ipc_handle *handle, cu_event *out);

#endif
