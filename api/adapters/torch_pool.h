/* torch_pool.h - releases of private pools that had to wait for captures to end. */
#ifndef PLEAT_ADAPTERS_TORCH_POOL_H
#define PLEAT_ADAPTERS_TORCH_POOL_H

/* Make those that can be made now. */
void pl_torch_release_owed(void);

#endif
