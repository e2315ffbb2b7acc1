/* pool.h - objects of one size with stable addresses, small indexes and reuse in LIFO order. */
#ifndef PLEAT_SIM_POOL_H
#define PLEAT_SIM_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SIM_POOL_SLAB_SHIFT = 8 };

typedef struct sim_pool {
    size_t object_bytes;
    char **slabs;    /* each holds 1 << SIM_POOL_SLAB_SHIFT objects */
    uint32_t n_seen; /* indexes handed out so far are [0, n_seen) */
    uint32_t *free_indexes;
    uint32_t n_free;
} sim_pool;

void sim_pool_init(sim_pool *pool, size_t object_bytes);
void sim_pool_fini(sim_pool *pool);

/* Returns a zeroed object for a new index, otherwise the object unchanged since its return. */
void *sim_pool_take(sim_pool *pool, uint32_t *index);
void sim_pool_give(sim_pool *pool, uint32_t index);

/* `index` < pool->n_seen. */
static inline void *sim_pool_at(const sim_pool *pool, uint32_t index)
{
    uint32_t in_slab = index & ((1U << SIM_POOL_SLAB_SHIFT) - 1);
    return pool->slabs[index >> SIM_POOL_SLAB_SHIFT] + in_slab * pool->object_bytes;
}

/* Numbers that must not be reused soon. A number waits for SIM_QUARANTINE later numbers. */
enum { SIM_QUARANTINE = 4096 };

typedef struct sim_quarantine {
    uint32_t *ring;
    uint64_t n_seen;
} sim_quarantine;

/* Puts *number in. True if an older number has waited long enough, which *number then becomes. */
bool sim_quarantine_swap(sim_quarantine *quarantine, uint32_t *number);
void sim_quarantine_fini(sim_quarantine *quarantine);

/* Host memory that never fails, since the process ends with a message instead. sim_new zeroes, and
 * sim_grow is realloc. */
void *sim_new(size_t bytes);
void *sim_grow(void *p, size_t bytes);

#endif
