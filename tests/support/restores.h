/* restores.h - what restores of checkpoints tell, collected. */
#ifndef PLEAT_TESTS_RESTORES_H
#define PLEAT_TESTS_RESTORES_H

#include "api/pleat.h"

/* Zeroed memory is an empty collection. */
typedef struct restores {
    pleat_pool_block *blocks[3]; /* by the restore's action, in the order of the reports */
    size_t n[3];
} restores;

/* A pleat_restored_fn and a pleat_block_fn; blocks of the second count as kept. context: a
 * restores. Check that blocks come in the order of addresses, freed ones first. */
void restores_see(void *context, pleat_restored what, const pleat_pool_block *block);
void restores_see_block(void *context, const pleat_pool_block *block);
/* NULL: no such block was reported. */
const pleat_pool_block *restores_find(const restores *told, pleat_restored what, pleat_devptr base);
void restores_clear(restores *told);

#endif
