/* fault.h - lets calls fail, as a test demands. */
#ifndef PLEAT_SIM_FAULT_H
#define PLEAT_SIM_FAULT_H

#include <stdbool.h>

#include "vmm/tools/sim/entries/entry.h"

extern bool sim_fault_is_armed; /* lock; false: no rule is left */

/* Count the call against every rule for the call. Returns CU_SUCCESS, or the code to answer. */
cu_result sim_fault_strike(sim_entry entry, bool is_fallible);
/* entry == SIM_N_ENTRIES: any fallible call. False: too many rules. */
bool sim_fault_add(sim_entry entry, uint64_t k, bool is_from, cu_result code);
void sim_fault_clear(void);
uint64_t sim_fault_count(void);
void sim_fault_reset(void);

#endif
