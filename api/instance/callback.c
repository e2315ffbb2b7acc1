/* callback.c - asking the application for memory.
 *
 * A callback runs on the thread of the short request, with no pleat lock held. The request keeps
 * its use of the instance, so the instance outlives the callback even if another thread destroys
 * the instance meanwhile. Requests inside a callback never run callbacks. */
#include "api/instance/callback.h"

#include "vmm/base/cancel.h"
#include "vmm/base/deadline.h"

/* Of the call that a callback interrupts. */
typedef struct interrupted {
    pl_deadline deadline;
    int cancel;
} interrupted;

static interrupted begin(const pl_instance *instance)
{
    pl_lock_assert_none();
    pl_thread_self = (pl_thread){ .is_in_callback = true, .callback_of = instance->handle };
    return (interrupted){ .deadline = pl_deadline_lay_aside(), .cancel = pl_cancel_off() };
}

static void end(interrupted call)
{
    pl_cancel_restore(call.cancel);
    pl_deadline_take_up(call.deadline);
    pl_thread_self = (pl_thread){ .is_in_callback = false };
}

bool pl_callback_pressure(pl_instance *instance, int device, size_t bytes)
{
    if (pl_thread_self.is_in_callback) {
        return false;
    }
    pl_lock_acquire(&instance->lock);
    pleat_pressure_fn fn = instance->pressure;
    void *context = instance->pressure_context;
    pl_lock_release(&instance->lock);
    if (!fn) {
        return false;
    }
    interrupted call = begin(instance);
    bool has_freed = fn(instance->handle, device, bytes, context);
    end(call);
    return has_freed;
}

void pl_callback_oom(pl_instance *instance, int device, size_t bytes, const char *text)
{
    if (pl_thread_self.is_in_callback) {
        return;
    }
    pl_lock_acquire(&instance->lock);
    pleat_oom_fn fn = instance->oom;
    void *context = instance->oom_context;
    pl_lock_release(&instance->lock);
    if (fn) {
        interrupted call = begin(instance);
        fn(instance->handle, device, bytes, text, context);
        end(call);
    }
}

pleat_status pleat_set_pressure_callback(pleat handle, pleat_pressure_fn fn, void *context)
{
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    pl_lock_acquire(&use.instance->lock);
    use.instance->pressure = fn;
    use.instance->pressure_context = context;
    pl_lock_release(&use.instance->lock);
    pl_use_leave(use);
    return PLEAT_OK;
}

pleat_status pleat_set_oom_callback(pleat handle, pleat_oom_fn fn, void *context)
{
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    pl_lock_acquire(&use.instance->lock);
    use.instance->oom = fn;
    use.instance->oom_context = context;
    pl_lock_release(&use.instance->lock);
    pl_use_leave(use);
    return PLEAT_OK;
}
