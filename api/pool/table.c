/* table.c - the table of private pools begins and ends with its device. */
#include "api/pool/pool_state.h"

void pl_pools_init(pl_pools *pools, pl_gpu *gpu)
{
    *pools = (pl_pools){ .gpu = gpu };
    pl_pools_init_checkpoints(pools);
    pl_lock_init(&pools->lock, PL_RANK_API);
}

void pl_pools_fini(pl_pools *pools)
{
    pl_pools_forget_routes(pools, pools->routes);
    pools->routes = NULL;
    while (pools->oldest) {
        pl_pool *pool = pools->oldest;
        pools->oldest = pool->next;
        pl_meta_free(&pools->meta, pool);
    }
    pl_meta_free(&pools->meta, pools->heads);
    if (pools->has_meta) {
        (void)pl_meta_fini(&pools->meta);
    }
    pl_lock_fini(&pools->lock);
}
