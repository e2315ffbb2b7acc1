/* segments_faults.h - fails one call after the other under a scenario, for tests.
 *
 * Each function opens and closes the cache itself, see segments_cache.h, for k = 0, 1, ... until
 * nothing fails any more: then the scenario makes no k-th call. After each failure what users see
 * is as before; afterwards everything works, and all memory can be had but what was lost and is
 * told to be. */
#ifndef PLEAT_TESTS_SEGMENTS_FAULTS_H
#define PLEAT_TESTS_SEGMENTS_FAULTS_H

#include "tests/support/segments_cache.h"

enum { FAULT_N_SLOTS = 6 };

typedef enum fault_act { FAULT_GET, FAULT_PUT, FAULT_RECORD, FAULT_TRIM } fault_act;

/* Skipped where an earlier failure left the slot as it was. */
typedef struct fault_step {
    fault_act act;
    unsigned slot;
    unsigned stream;
    size_t bytes; /* of a request */
} fault_step;

/* What is done on a device of 96 MiB; in the end all is freed. */
typedef struct fault_scenario {
    const pl_allocator_ops *ops;
    const pl_allocator_options *options; /* NULL = the defaults */
    const fault_step *steps; /* NULL: grow, use several streams, fill the device, trim */
    size_t n_steps;
} fault_scenario;

/* Fail the k-th call of the driver, or that and all later ones, with that code. `call`: of one
 * entry point only; NULL = any that does something. Returns how many such calls there are. */
uint64_t fault_driver(const fault_scenario *scenario, const char *call, bool ever_after, int code);
uint64_t fault_host(const fault_scenario *scenario, bool ever_after); /* host allocations */
/* A creation that fails, for want of host memory or by the driver, leaves nothing. */
void fault_creation(const pl_allocator_ops *ops);

#endif
