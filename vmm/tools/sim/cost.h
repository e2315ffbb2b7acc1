/* cost.h - the cost clock: microseconds per call, handle, granule, MiB and live handle.
 *
 *   # comment
 *   gpu NVIDIA A100-SXM4-80GB
 *   cuMemMap call 0.5 handle 1 granule 0 mib 0
 *   cuMemCreate mib 7.5 live 88 live_most 4096
 *
 * One line per entry point, with keys in any order. A missing key is 0.
 *   us = call + handle * handles or mappings + granule * granules + mib * MiB
 *        + live * thousands of live handles, at most live_most handles
 * The call creates, maps, grants, unmaps or frees these handles, granules and MiB. Live handles
 * have memory from cuMemCreate on the device at the call. The source measured up to live_most
 * handles. live and live_most are above 0, or absent together.
 * Lines `gpu` and `source` are for people. An entry point without a line costs nothing. */
#ifndef PLEAT_SIM_COST_H
#define PLEAT_SIM_COST_H

#include <stdbool.h>

#include "vmm/tools/sim/entries/entry.h"
#include "vmm/tools/sim/state.h"

typedef struct sim_cost {
    double call;
    double handle;
    double granule;
    double mib;
    double live;
    double live_most;
} sim_cost;

extern sim_cost sim_costs[SIM_N_ENTRIES]; /* lock */

/* The files of vmm/tools/sim/costs/, as CMake built them in. */
typedef struct sim_cost_file {
    const char *name; /* NULL: the list's end */
    const char *text;
} sim_cost_file;

extern const sim_cost_file sim_cost_files[];

/* `name` is a built-in model or a file. On failure returns false and a message, and the costs are
 * as before. */
bool sim_cost_load(const char *name, char *error, size_t n_error);

/* Adds the part of the cost that depends on the call's size. `n_live`: handles alive when the call
 * began. */
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
