/* call.h - the frame around every exported call: lock, rules, fault, cost, log.
 *
 *     sim_call call;
 *     sim_call_begin(&call, SIM_CU_mem_map, ptr, bytes, offset, handle);
 *     if (call.result == CU_SUCCESS) {
 *         call.result = ...;
 *     }
 *     return sim_call_end(&call);
 *
 * begin takes sim.lock, end gives it back. In between, the call may set logged arguments, for
 * values that it hands out. */
#ifndef PLEAT_SIM_CALL_H
#define PLEAT_SIM_CALL_H

#include "vmm/tools/sim/entries/entry.h"
#include "vmm/tools/sim/state.h"

enum { SIM_CALL_ARGS = 4 };

typedef struct sim_call {
    sim_entry entry;
    cu_result result;
    uint64_t number;
    double cost_us; /* the cost clock at the beginning */
    uint64_t args[SIM_CALL_ARGS];
} sim_call;

void sim_call_begin(sim_call *call, sim_entry entry, uint64_t arg0, uint64_t arg1, uint64_t arg2,
                    uint64_t arg3);
cu_result sim_call_end(const sim_call *call);

/* Pointers as logged. */
static inline uint64_t sim_arg(const void *p)
{
    return (uint64_t)(uintptr_t)p;
}

#endif
