/* sim_world.h - a simulator with a current context and pieces of memory. It must be empty at the
 * end.
 *
 * The simulator's tests call its cu* symbols directly. GRANULE is its default granularity. */
#ifndef PLEAT_TESTS_SIM_WORLD_H
#define PLEAT_TESTS_SIM_WORLD_H

#include <check.h>

#include "vmm/base/pleat_sim.h"
#include "vmm/tools/sim/entries/entry.h"

#define GRANULE (UINT64_C(2) << 20)

#define ck_ok(call) ck_assert_int_eq((call), CU_SUCCESS)

/* Reset to `conf`, cuInit, context of device 0 current. */
void world_begin(const char *conf);
/* world_begin(NULL), as a fixture. */
void world_default(void);
/* Finish all work, release the context, and assert that nothing is held or lost, and no hazard was
 * seen. */
void world_end(void);
/* The same with exactly `n` hazards, all of `kind`. */
void world_end_with(pleat_sim_hazard_kind kind, size_t n);

pleat_sim_counts world_counts(void);
size_t world_hazards(void);
size_t world_unfinished(void);

cu_mem_prop world_prop(int device);
cu_mem_handle world_create(size_t n_granules);
cu_devptr world_reserve(size_t n_granules);
void world_allow(cu_devptr at, size_t n_granules, int device, int flags);
/* Reserve memory, map it with one-granule handles (released at once) and give access. */
cu_devptr world_map(size_t n_granules);
void world_unmap(cu_devptr at, size_t n_granules); /* frees the addresses, too */
/* A non-blocking stream. */
cu_stream world_stream(void);
cu_event world_event(void);
void world_write(cu_stream stream, cu_devptr at, size_t bytes);
void world_read(cu_stream stream, cu_devptr at, size_t bytes);
void world_order(cu_stream earlier, cu_stream later); /* by an event */

#endif
