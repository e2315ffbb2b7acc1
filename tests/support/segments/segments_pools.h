/* segments_pools.h - private pools and graphs of the pleat allocator on the simulator, for tests.
 *
 * On top of segments_sim.h; all told events are compared with the state. */
#ifndef PLEAT_TESTS_SEGMENTS_POOLS_H
#define PLEAT_TESTS_SEGMENTS_POOLS_H

#include "tests/support/segments/segments_sim.h"

/* An allocator with an observer that replays the told events (segments_told.h). */
void pools_open_with(const char *sim, pl_cross_stream cross_stream, uint32_t wait_ms);
void pools_close(void);

/* The call must succeed. Every walker passes afterwards. The first opens a pool that keeps nothing,
 * the second a pool that keeps its memory, as after a checkpoint or a capture. */
pl_keeper *pools_open_idle(void);
pl_keeper *pools_open_one(void);
void pools_release(pl_keeper *pool);
void pools_rest(pl_keeper *pool);
/* and write to the block */
pleat_devptr pools_get(pl_keeper *pool, size_t bytes, unsigned stream);
/* pools_get without a pool */
pleat_devptr pools_get_default(size_t bytes, unsigned stream);
pleat_status pools_refused(pl_keeper *pool, size_t bytes, unsigned stream); /* must fail */
uint64_t pools_reserved(pl_keeper *pool);

void pools_begin_capture(unsigned stream);
cu_graph_exec pools_end_capture(unsigned stream);
void pools_launch(cu_graph_exec exec, unsigned stream);
void pools_forget(cu_graph_exec exec);

#endif
