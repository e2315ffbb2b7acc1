/* cost.h - the cost clock: microseconds per call, handle, granule, MiB and live handle.
 *
 *   # comment
 *   gpu NVIDIA A100-SXM4-80GB
 *   cuMemMap call 0.5 handle 1 granule 0 mib 0
 *   cuMemCreate mib 7.5 live 88 live_most 4096
 *
 * One line for each entry point, keys in any order, absent ones 0:
 *   us = call + handle * handles or mappings + granule * granules + mib * MiB
 *        + live * thousands of live handles, at most live_most handles
 * counting the handles, granules and MiB that the call creates, maps, grants, unmaps or frees, and
 * the handles of cuMemCreate that have memory on the device when the call is made. live_most is how
 * far the source measured; both are above 0, or neither is given.
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
    double live;
    double live_most;
} sim_cost;

extern sim_cost sim_costs[SIM_N_ENTRIES]; /* lock */

/* The files of vmm/sim/costs/, as CMake built them in. */
typedef struct sim_cost_file {
    const char *name; /* NULL: behind the last one */
    const char *text;
} sim_cost_file;

extern const sim_cost_file sim_cost_files[];

/* `name` is a built-in model or a file. On failure returns false and a message, and the costs are
 * as before. */
bool sim_cost_load(const char *name, char *error, size_t n_error);

/* Adds the part of the cost that depends on the call's size. `n_live`: handles when it began. */
static inline void sim_cost_charge(sim_entry entry, uint64_t n_live, uint64_t n_handles,
                                   uint64_t bytes)
{
    const sim_cost *cost = &sim_costs[entry];
    uint64_t n_granules = (bytes + sim.conf.granule_bytes - 1) >> sim.conf.granule_shift;
    double live = (double)n_live < cost->live_most ? (double)n_live : cost->live_most;
    sim.cost_us += cost->handle * (double)n_handles + cost->granule * (double)n_granules +
                   cost->mib * ((double)bytes / 1048576.0) + cost->live * live / 1e3;
}

#endif
