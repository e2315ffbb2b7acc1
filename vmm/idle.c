/* idle.c - see idle.h. Guarded by the device's lock, which is dropped for driver calls. When two
 * threads make the stream at once, the later thread destroys its own stream again. */
#include "vmm/idle.h"

#include "vmm/device_state.h"
#include "vmm/left.h"

static pl_stream *find(pl_device *dev)
{
    pl_lock_acquire(&dev->lock);
    pl_stream *stream = dev->idle;
    pl_lock_release(&dev->lock);
    return stream;
}

/* False if there is already an idle stream. */
static bool keep(pl_device *dev, pl_stream *stream, cu_stream handle)
{
    pl_lock_acquire(&dev->lock);
    bool is_first = dev->idle == NULL;
    if (is_first) {
        dev->idle = stream;
        dev->idle_handle = handle;
    }
    pl_lock_release(&dev->lock);
    return is_first;
}

pleat_status pl_device_idle_stream(pl_device *dev, pl_stream **out)
{
    pl_scope scope;
    cu_stream handle = NULL;
    pl_stream *stream = find(dev);
    if (stream != NULL) {
        *out = stream;
        return PLEAT_OK;
    }
    pleat_status st = pl_scope_begin(dev, &scope);
    if (st != PLEAT_OK) {
        return st;
    }
    st = pl_driver_failure(pl_cu_stream_create(dev->drv, &handle, CU_STREAM_NON_BLOCKING_FLAG));
    if (st == PLEAT_OK) {
        st = pl_stream_get(dev, handle, &stream);
    }
    bool is_kept = st == PLEAT_OK && keep(dev, stream, handle);
    if (handle != NULL && !is_kept) {
        pl_left_undo(dev, PL_LEFT_STREAM, (uintptr_t)handle, 0);
    }
    pl_scope_end(dev, &scope);
    *out = st == PLEAT_OK ? find(dev) : *out;
    return st;
}

bool pl_stream_is_idle(const pl_stream *stream)
{
    return find(stream->dev) == stream;
}

void pl_idle_end(pl_device *dev)
{
    pl_scope scope;
    if (dev->idle == NULL) {
        return;
    }
    bool is_inside = pl_scope_begin(dev, &scope) == PLEAT_OK ||
                     pl_scope_begin(dev, &scope) == PLEAT_OK;
    pl_left_undo(dev, PL_LEFT_STREAM, (uintptr_t)dev->idle_handle, 0);
    if (is_inside) {
        pl_scope_end(dev, &scope);
    }
}
