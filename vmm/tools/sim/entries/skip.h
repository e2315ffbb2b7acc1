/* skip.h - an ordered index of free pieces by size, then address: a skip list of embedded nodes.
 *
 * K1  every level's list is in the order of keys, and a part of the one below
 * K2  no two nodes have the same key */
#ifndef PLEAT_SIM_SKIP_H
#define PLEAT_SIM_SKIP_H

#include <stdbool.h>
#include <stdint.h>

enum { SIM_SKIP_LEVELS = 12 };

typedef struct sim_skip_node {
    struct sim_skip_node *next[SIM_SKIP_LEVELS];
    uint64_t bytes; /* the key, in this order */
    uint64_t ptr;
    unsigned height;
} sim_skip_node;

typedef struct sim_skip {
    sim_skip_node head; /* zeroed: an empty index */
    uint64_t random;
} sim_skip;

static inline bool sim_skip_is_before(uint64_t bytes, uint64_t ptr, uint64_t other_bytes,
                                      uint64_t other_ptr)
{
    return bytes != other_bytes ? bytes < other_bytes : ptr < other_ptr;
}

void sim_skip_insert(sim_skip *skip, sim_skip_node *node, uint64_t bytes, uint64_t ptr);
void sim_skip_remove(sim_skip *skip, sim_skip_node *node);
/* The first node of at least `bytes`, or NULL. Go on with node->next[0]. */
sim_skip_node *sim_skip_find(const sim_skip *skip, uint64_t bytes);

#endif
