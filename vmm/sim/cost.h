/* cost.h - the cost clock: microseconds per call, handle, granule and MiB, from a text file.
 *
 *   # comment
 *   gpu NVIDIA A100-SXM4-80GB
 *   cuMemMap call 0.5 handle 1 granule 0 mib 0
 *
 * One line for each entry point, keys in any order, absent ones 0:
 *   us = call + handle * handles or mappings + granule * granules + mib * MiB
 * counting the handles, granules and MiB that the call creates, maps, grants, unmaps or frees.
 * Lines `gpu` and `source` are for people. An entry point without a line costs nothing. */
#ifndef PLEAT_SIM_COST_H
#define PLEAT_SIM_COST_H

#include <stdbool.h>

#include "vmm/sim/entry.h"
#include "vmm/sim/state.h"

typedef struct sim_cost {
    double call;
    double handle;
    double granule;
    double mib;
} sim_cost;

extern sim_cost sim_costs[SIM_N_ENTRIES]; /* lock */

/* `name` is a built-in model or a file. On failure returns false and a message, and the costs are
 * as before. */
bool sim_cost_load(const char *name, char *error, size_t n_error);
/* The text of a built-in model, or NULL. */
const char *sim_cost_builtin(const char *name);

/* Adds the part of the cost that depends on the call's size. */
static inline void sim_cost_charge(sim_entry entry, uint64_t n_handles, uint64_t n_granules,
                                   uint64_t bytes)
{
    const sim_cost *cost = &sim_costs[entry];
    sim.cost_us += cost->handle * (double)n_handles + cost->granule * (double)n_granules +
                   cost->mib * ((double)bytes / 1048576.0);
}

#endif
