/* skip.c - a skip list, without balancing or allocations.
 *
 * A node reaches every further level with a chance of one in four. The list has its own random
 * generator, so equal histories make equal lists. Source: Pugh, Skip lists, CACM 33 (1990). */
#include "vmm/tools/sim/entries/skip.h"

#include <stddef.h>

static unsigned draw_height(sim_skip *skip)
{
    skip->random = skip->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    uint64_t bits = skip->random >> 32;
    unsigned height = 1;
    while (height < SIM_SKIP_LEVELS && (bits & 3) == 0) {
        bits >>= 2;
        height++;
    }
    return height;
}

/* Finds on every level the last node whose key comes before the given key, or the head. */
static void find_before(sim_skip *skip, uint64_t bytes, uint64_t ptr,
                        sim_skip_node *before[SIM_SKIP_LEVELS])
{
    sim_skip_node *at = &skip->head;
    for (unsigned level = SIM_SKIP_LEVELS; level-- > 0;) {
        while (at->next[level] != NULL &&
               sim_skip_is_before(at->next[level]->bytes, at->next[level]->ptr, bytes, ptr)) {
            at = at->next[level];
        }
        before[level] = at;
    }
}

void sim_skip_insert(sim_skip *skip, sim_skip_node *node, uint64_t bytes, uint64_t ptr)
{
    sim_skip_node *before[SIM_SKIP_LEVELS];
    find_before(skip, bytes, ptr, before);
    node->bytes = bytes;
    node->ptr = ptr;
    node->height = draw_height(skip);
    for (unsigned level = 0; level < node->height; level++) {
        node->next[level] = before[level]->next[level];
        before[level]->next[level] = node;
    }
}

void sim_skip_remove(sim_skip *skip, sim_skip_node *node)
{
    sim_skip_node *before[SIM_SKIP_LEVELS];
    find_before(skip, node->bytes, node->ptr, before);
    for (unsigned level = 0; level < node->height; level++) {
        before[level]->next[level] = node->next[level];
    }
}

sim_skip_node *sim_skip_find(const sim_skip *skip, uint64_t bytes)
{
    const sim_skip_node *at = &skip->head;
    for (unsigned level = SIM_SKIP_LEVELS; level-- > 0;) {
        while (at->next[level] != NULL && at->next[level]->bytes < bytes) {
            at = at->next[level];
        }
    }
    return at->next[0];
}
