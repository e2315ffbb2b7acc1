/* torch_pool.c - PyTorch's hooks on the default instance: private pools.
 *
 * That of beginning one takes a std::function by value: torch_shim.cpp. Holds no lock. */
#include "api/adapters/complain.h"
#include "api/adapters/pleat_torch.h"
#include "api/default.h"

void pleat_torch_end_pool(int device, pleat_pool_id id)
{
    if (pleat_pool_end(pl_default_peek(), device, id) != PLEAT_OK) {
        pl_complain_once(PL_COMPLAINT_POOL, "a private pool could not be ended");
    }
}

void pleat_torch_release_pool(int device, pleat_pool_id id)
{
    if (pleat_pool_release(pl_default_peek(), device, id) != PLEAT_OK) {
        pl_complain_once(PL_COMPLAINT_POOL, "a private pool could not be released");
    }
}
