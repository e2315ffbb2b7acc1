/* segments_faults.h - makes each call of a scenario fail in turn.
 *
 * Each function opens and closes the cache (segments_cache.h) for k = 0, 1, ... until the scenario
 * makes no k-th call. After each failure, users see the state from before the failure. Afterwards
 * everything works, and all memory is available except bytes reported as lost. */
#ifndef PLEAT_TESTS_SEGMENTS_FAULTS_H
#define PLEAT_TESTS_SEGMENTS_FAULTS_H

#include "tests/support/segments/segments_cache.h"

enum { FAULT_N_SLOTS = 6 };

typedef enum fault_act { FAULT_GET, FAULT_PUT, FAULT_RECORD, FAULT_TRIM } fault_act;

/* Skipped if an earlier failure left the slot unchanged. */
typedef struct fault_step {
    fault_act act;
    unsigned slot;
    unsigned stream;
    size_t bytes; /* of a request */
} fault_step;

/* Steps on a device of 96 MiB; at the end all is freed. */
typedef struct fault_scenario {
    const pl_allocator_ops *ops;
    const pl_allocator_options *options; /* NULL = the defaults */
    const fault_step *steps; /* NULL: grow, use several streams, fill the device, trim */
    size_t n_steps;
} fault_scenario;

/* Fail the k-th call of the driver with this code; with `ever_after` also all later calls. `call`:
 * fail only calls of this entry point. NULL = every call with an effect. Returns the number of such
 * calls. */
uint64_t fault_driver(const fault_scenario *scenario, const char *call, bool ever_after, int code);
uint64_t fault_host(const fault_scenario *scenario, bool ever_after); /* host allocations */
/* If a creation fails, for lack of host memory or in the driver, it leaves nothing behind. */
void fault_creation(const pl_allocator_ops *ops);

#endif
