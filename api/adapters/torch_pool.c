/* torch_pool.c - PyTorch's hooks on the default instance: private pools.
 *
 * The hook that begins a pool is in torch_shim.cpp, since its argument is a std::function. PyTorch
 * releases a pool when its last graph is gone, but a launch of the graph may still run, and another
 * graph may be under capture. So no hook waits here; the pool drains by itself
 * (segments/pleat/space/private.h). Holds no lock. */
#include "api/adapters/pleat_torch.h"
#include "api/base/complain.h"
#include "api/calls/default.h"
#include "api/instance/instance.h"

/* PyTorch's graphs use memory of their pools only: captures may let go of all other freed memory.
 * */
static void let_captures_go(const pl_gpu *gpu)
{
    if (gpu->ops->let_captures_go) {
        gpu->ops->let_captures_go(gpu->allocator);
    }
}

void pleat_torch_end_pool(int device, pleat_pool_id id)
{
    pleat handle = pl_default_peek();
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return;
    }
    if (pleat_pool_end(handle, device, id) != PLEAT_OK) {
        pl_complain_once(PL_COMPLAINT_POOL, "a private pool could not be ended");
    } else {
        let_captures_go(pl_use_find_gpu(use.instance, device));
    }
    pl_use_leave(use);
}

void pleat_torch_release_pool(int device, pleat_pool_id id)
{
    if (pleat_pool_release(pl_default_peek(), device, id) != PLEAT_OK) {
        pl_complain_once(PL_COMPLAINT_POOL, "a private pool could not be released");
    }
}
