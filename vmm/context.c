/* context.c - the primary contexts whose streams a device knows, its own and its peers'.
 *
 * A peer's context is retained at the first sight of its first stream, when the program has already
 * made the context. A device that is only listed as a peer costs nothing. The context is kept until
 * the device is closed, because work on the device's memory may outlive the streams that did it. */
#include "vmm/base/cancel.h"
#include "vmm/device_state.h"
#include "vmm/left.h"

static bool release(pl_driver *drv, cu_device gpu)
{
    return pl_cu_primary_release(drv, gpu) == CU_SUCCESS ||
           pl_cu_primary_release(drv, gpu) == CU_SUCCESS;
}

static void publish(pl_device *dev, cu_context context, cu_device gpu)
{
    unsigned n = pl_context_count(dev);
    dev->contexts.list[n] = context;
    dev->contexts.gpus[n] = gpu;
    atomic_store_explicit(&dev->contexts.n, n + 1, memory_order_release);
}

/* ---- captures -------------------------------------------------------------------------------- */

/* Captures in each device's context that are under way or about to begin, as noted by all
 * instances. Contexts belong to the process, so does the count. */
static _Atomic size_t n_captures[PL_MOST_ACCESS];
/* Threads of peers about to break a capture in the context, as recording does. */
static _Atomic size_t n_recorders[PL_MOST_ACCESS];

enum { PAUSE_NS = 20000 };

static bool is_counted(cu_device gpu)
{
    return gpu >= 0 && gpu < PL_MOST_ACCESS;
}

void pl_device_note_capture(const pl_device *dev, bool is_beginning)
{
    if (is_counted(dev->gpu)) {
        atomic_fetch_add(&n_captures[dev->gpu], is_beginning ? 1 : SIZE_MAX);
    }
}

void pl_device_wait_for_recorders(const pl_device *dev)
{
    while (is_counted(dev->gpu) && atomic_load(&n_recorders[dev->gpu]) > 0) {
        pl_sleep_ns(PAUSE_NS);
    }
}

/* A thread that notes a capture counts the capture, then waits for the recorders. A recorder counts
 * itself, then looks for captures. So a recorder sees the capture or is waited for. */
pleat_status pl_context_begin_record(const pl_device *dev, unsigned i)
{
    cu_device gpu = dev->contexts.gpus[i];
    if (i == 0 || !is_counted(gpu)) {
        return PLEAT_OK;
    }
    atomic_fetch_add(&n_recorders[gpu], 1);
    if (atomic_load(&n_captures[gpu]) == 0) {
        return PLEAT_OK;
    }
    atomic_fetch_sub(&n_recorders[gpu], 1);
    return PLEAT_ECAPTURE;
}

void pl_context_end_record(const pl_device *dev, unsigned i)
{
    cu_device gpu = dev->contexts.gpus[i];
    if (i > 0 && is_counted(gpu)) {
        atomic_fetch_sub(&n_recorders[gpu], 1);
    }
}

/* ---- with the device ------------------------------------------------------------------------- */

pleat_status pl_contexts_init(pl_device *dev)
{
    cu_result result = pl_cu_primary_retain(dev->drv, &dev->context, dev->gpu);
    if (result != CU_SUCCESS) {
        return result == CU_OUT_OF_MEMORY ? PLEAT_ENOMEM_DEVICE : PLEAT_EDRIVER;
    }
    publish(dev, dev->context, dev->gpu);
    return PLEAT_OK;
}

size_t pl_contexts_fini(pl_device *dev)
{
    size_t n_failed = 0;
    for (unsigned n = pl_context_count(dev); n > 0; n--) {
        n_failed += !release(dev->drv, dev->contexts.gpus[n - 1]);
    }
    return n_failed;
}

/* ---- contexts seen later --------------------------------------------------------------------- */

static bool is_known(const pl_device *dev, cu_context context)
{
    for (unsigned i = 0; i < pl_context_count(dev); i++) {
        if (dev->contexts.list[i] == context) {
            return true;
        }
    }
    return false;
}

/* Whose is it? */
static pleat_status find_gpu(pl_device *dev, cu_context context, cu_device *out)
{
    pl_scope scope;
    pleat_status st = pl_scope_begin_in(dev, context, &scope);
    if (st == PLEAT_OK) {
        st = pl_driver_failure(pl_cu_ctx_get_device(dev->drv, out));
        pl_scope_end(dev, &scope);
    }
    return st;
}

/* Are mappings open to that device? */
static pleat_status refuse_stranger(pl_device *dev, cu_device gpu)
{
    for (unsigned i = 1; i < dev->n_access; i++) {
        cu_device peer;
        cu_result result = pl_cu_device_get(dev->drv, &peer, dev->access[i].location.id);
        if (result != CU_SUCCESS) {
            return pl_driver_failure(result);
        }
        if (peer == gpu) {
            return PLEAT_OK;
        }
    }
    return PLEAT_ESTREAM;
}

/* `primary` was retained. Releases the context if another thread was faster, or if the context is
 * not primary. */
static pleat_status keep(pl_device *dev, cu_context primary, cu_device gpu, cu_context context)
{
    pl_lock_acquire(&dev->lock);
    bool is_new = primary == context && !is_known(dev, context);
    if (is_new) {
        publish(dev, context, gpu);
    }
    pl_lock_release(&dev->lock);
    if (!is_new) {
        pl_left_undo(dev, PL_LEFT_CONTEXT, (uint64_t)gpu, 0);
    }
    return primary == context ? PLEAT_OK : PLEAT_ESTREAM;
}

static pleat_status add(pl_device *dev, cu_context context, cu_device gpu)
{
    cu_context primary = NULL;
    cu_result result = pl_cu_primary_retain(dev->drv, &primary, gpu);
    return result == CU_SUCCESS ? keep(dev, primary, gpu, context) : pl_driver_failure(result);
}

/* A driver that cannot tell is older than virtual memory management, so no peer is active. */
static bool is_active(const pl_device *dev, cu_device gpu)
{
    unsigned flags = 0;
    int active = 0;
    return pl_driver_has(dev->drv, PL_CU_primary_state) &&
           pl_cu_primary_state(dev->drv, gpu, &flags, &active) == CU_SUCCESS && active != 0;
}

static bool is_known_gpu(const pl_device *dev, cu_device gpu)
{
    for (unsigned i = 0; i < pl_context_count(dev); i++) {
        if (dev->contexts.gpus[i] == gpu) {
            return true;
        }
    }
    return false;
}

static pleat_status add_active(pl_device *dev, int ordinal)
{
    cu_device gpu = 0;
    cu_context primary = NULL;
    cu_result result = pl_cu_device_get(dev->drv, &gpu, ordinal);
    if (result != CU_SUCCESS || is_known_gpu(dev, gpu) || !is_active(dev, gpu)) {
        return pl_driver_failure(result);
    }
    result = pl_cu_primary_retain(dev->drv, &primary, gpu);
    return result == CU_SUCCESS ? keep(dev, primary, gpu, primary) : pl_driver_failure(result);
}

pleat_status pl_context_admit_active(pl_device *dev)
{
    pleat_status st = PLEAT_OK;
    for (unsigned i = 1; i < dev->n_access && st == PLEAT_OK; i++) {
        st = add_active(dev, dev->access[i].location.id);
    }
    return st;
}

pleat_status pl_device_know_peers(pl_device *dev)
{
    pl_scope scope;

    if (dev->n_access == 1) {
        return PLEAT_OK;
    }
    pleat_status st = pl_scope_begin(dev, &scope);
    if (st == PLEAT_OK) {
        st = pl_context_admit_active(dev);
        pl_scope_end(dev, &scope);
    }
    return st;
}

pleat_status pl_context_admit(pl_device *dev, cu_context context)
{
    cu_device gpu = 0;
    if (is_known(dev, context)) {
        return PLEAT_OK;
    }
    if (dev->n_access == 1) {
        return PLEAT_ESTREAM;
    }
    pleat_status st = find_gpu(dev, context, &gpu);
    st = st == PLEAT_OK ? refuse_stranger(dev, gpu) : st;
    return st == PLEAT_OK ? add(dev, context, gpu) : st;
}
