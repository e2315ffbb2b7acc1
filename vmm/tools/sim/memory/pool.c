/* pool.c - slabs of objects, and the simulator's host memory.
 *
 * A simulator without host memory cannot go on. It prints a message and ends the process, because
 * the program would take an error code for the device's. */
#include "vmm/tools/sim/memory/pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *checked(void *p, size_t bytes)
{
    if (p == NULL && bytes > 0) {
        fprintf(stderr, "pleat simulator: out of host memory (%zu bytes)\n", bytes);
        _Exit(70);
    }
    return p;
}

void *sim_new(size_t bytes)
{
    return checked(calloc(1, bytes), bytes);
}

void *sim_grow(void *p, size_t bytes)
{
    return checked(realloc(p, bytes), bytes);
}

void sim_pool_init(sim_pool *pool, size_t object_bytes)
{
    memset(pool, 0, sizeof(*pool));
    pool->object_bytes = (object_bytes + 15) & ~(size_t)15;
}

void sim_pool_fini(sim_pool *pool)
{
    uint32_t n_slabs = (pool->n_seen + (1U << SIM_POOL_SLAB_SHIFT) - 1) >> SIM_POOL_SLAB_SHIFT;
    for (uint32_t i = 0; i < n_slabs; i++) {
        free(pool->slabs[i]);
    }
    free(pool->slabs);
    free(pool->free_indexes);
    memset(pool, 0, sizeof(*pool));
}

/* Makes room for the slab that starts at index n_seen. */
static void add_slab(sim_pool *pool)
{
    uint32_t slab = pool->n_seen >> SIM_POOL_SLAB_SHIFT;
    size_t n_objects = (size_t)(slab + 1) << SIM_POOL_SLAB_SHIFT;
    pool->slabs = sim_grow(pool->slabs, (slab + 1) * sizeof(pool->slabs[0]));
    pool->slabs[slab] = sim_new(pool->object_bytes << SIM_POOL_SLAB_SHIFT);
    pool->free_indexes = sim_grow(pool->free_indexes, n_objects * sizeof(pool->free_indexes[0]));
}

void *sim_pool_take(sim_pool *pool, uint32_t *index)
{
    if (pool->n_free > 0) {
        *index = pool->free_indexes[--pool->n_free];
        return sim_pool_at(pool, *index);
    }
    if ((pool->n_seen & ((1U << SIM_POOL_SLAB_SHIFT) - 1)) == 0) {
        add_slab(pool);
    }
    *index = pool->n_seen++;
    return sim_pool_at(pool, *index);
}

void sim_pool_give(sim_pool *pool, uint32_t index)
{
    pool->free_indexes[pool->n_free++] = index;
}

bool sim_quarantine_swap(sim_quarantine *quarantine, uint32_t *number)
{
    if (quarantine->ring == NULL) {
        quarantine->ring = sim_new(SIM_QUARANTINE * sizeof(quarantine->ring[0]));
    }
    uint32_t *place = &quarantine->ring[quarantine->n_seen++ % SIM_QUARANTINE];
    uint32_t out = *place;
    *place = *number;
    *number = out;
    return quarantine->n_seen > SIM_QUARANTINE;
}

void sim_quarantine_fini(sim_quarantine *quarantine)
{
    free(quarantine->ring);
    memset(quarantine, 0, sizeof(*quarantine));
}
