/* torch_pool.c - PyTorch's hooks on the default instance: private pools.
 *
 * That of beginning one takes a std::function by value: torch_shim.cpp.
 *
 * A pool is released when its last graph is gone, but a graph may have been launched on a stream
 * that pleat has never seen, and may run yet. So the device is synchronised first: PyTorch does
 * that before it frees a graph's memory, too. While something is being captured nobody may
 * synchronise; then the release is owed, until the next hook that finds no capture.
 *
 * The list of what is owed has a lock of its own, held for a few instructions and with no other. */
#include <pthread.h>

#include "api/adapters/capturing.h"
#include "api/adapters/complain.h"
#include "api/adapters/pleat_torch.h"
#include "api/adapters/torch_pool.h"
#include "api/default.h"

enum { MOST_OWED = 4096 };

typedef struct pl_owed {
    pleat handle;
    int device;
    pleat_pool_id id;
} pl_owed;

static pthread_mutex_t owed_lock = PTHREAD_MUTEX_INITIALIZER;
static pl_owed owed[MOST_OWED]; /* owed_lock */
static unsigned n_owed;         /* owed_lock */

/* When the list is full the pool keeps its memory: safe, and said once. */
static void owe(pleat handle, int device, pleat_pool_id id)
{
    pthread_mutex_lock(&owed_lock);
    bool has_room = n_owed < MOST_OWED;
    if (has_room) {
        owed[n_owed++] = (pl_owed){ handle, device, id };
    }
    pthread_mutex_unlock(&owed_lock);
    if (!has_room) {
        pl_error_set(PLEAT_EBUSY, 0, "device %d: %u pools wait for captures to end", device,
                     (unsigned)MOST_OWED);
        pl_complain_once(PL_COMPLAINT_POOL, "a private pool keeps its memory");
    }
}

static bool take_owed(pl_owed *out)
{
    pthread_mutex_lock(&owed_lock);
    bool is_any = n_owed > 0;
    if (is_any) {
        *out = owed[--n_owed];
    }
    pthread_mutex_unlock(&owed_lock);
    return is_any;
}

static void release_now(pleat handle, int device, pleat_pool_id id)
{
    if (pleat_pool_release(handle, device, id) != PLEAT_OK) {
        pl_complain_once(PL_COMPLAINT_POOL, "a private pool could not be released");
    }
}

/* Once nothing runs, the memory of graphs that are gone is everybody's. */
static bool release_idle(pl_gpu *gpu, pleat handle, pleat_pool_id id)
{
    if (pl_capturing_anywhere(gpu->instance) || pl_device_synchronize(gpu->dev) == PLEAT_ECAPTURE) {
        return false;
    }
    release_now(handle, gpu->ordinal, id);
    return true;
}

void pl_torch_release_owed(void)
{
    pl_owed next;
    unsigned n_most = MOST_OWED;
    while (n_most-- > 0 && take_owed(&next)) {
        pl_use use = pl_use_enter(next.handle);
        if (!use.instance) {
            continue; /* it went with its instance */
        }
        pl_gpu *gpu = pl_use_find_gpu(use.instance, next.device);
        bool is_released = !gpu || release_idle(gpu, next.handle, next.id);
        pl_use_leave(use);
        if (!is_released) {
            owe(next.handle, next.device, next.id);
            return;
        }
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
        pl_capturing_let_go(pl_use_find_gpu(use.instance, device));
    }
    pl_use_leave(use);
    pl_torch_release_owed();
}

void pleat_torch_release_pool(int device, pleat_pool_id id)
{
    pleat handle = pl_default_peek();
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return;
    }
    pl_gpu *gpu = pl_use_find_gpu(use.instance, device);
    if (!gpu) {
        release_now(handle, device, id); /* says why it cannot */
    } else if (!release_idle(gpu, handle, id)) {
        owe(handle, device, id);
    }
    pl_use_leave(use);
}
