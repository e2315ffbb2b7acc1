/* sim_pools.h - a simulator with one pool and two non-blocking streams, for the tests of pools.
 *
 * The pool keeps all its memory (threshold UINT64_MAX). Only synchronisations advance time. */
#ifndef PLEAT_TESTS_SIM_POOLS_H
#define PLEAT_TESTS_SIM_POOLS_H

#include "sim_world.h"

#define POOLS_KIB UINT64_C(1024)
#define POOLS_MIB (1024 * POOLS_KIB)
#define POOLS_UNIT (32 * POOLS_MIB) /* the unit of a pool's device memory */

extern cu_mempool pool;
extern cu_stream a;
extern cu_stream b;

void pools_begin(const char *conf);
void pools_default(void); /* a device of 1 GiB */
void pools_small(void);   /* pools of one allocation of 70 MiB */
void pools_close(void);   /* ends what pools_begin made, without the world */
void pools_end(void);     /* ends the world, too, which must be empty and without hazards */

cu_mempool_props pools_props(uint64_t max_bytes);
cu_mempool pools_make(uint64_t max_bytes);
void pools_set_bytes(int attribute, uint64_t value);
void pools_set_flag(int attribute, int value);
uint64_t pools_get_bytes(int attribute);
uint64_t pools_reserved(void);

cu_devptr pools_get(uint64_t bytes, cu_stream stream);
int pools_try_get(uint64_t bytes, cu_stream stream); /* for calls that must fail */
void pools_put(cu_devptr at, cu_stream stream);
/* Submit unfinished work to the stream. So later work there is unfinished, too. */
void pools_occupy(cu_stream stream);

#endif
