/* gpu.c - opens a device of an instance at its first use, and takes it apart at the instance's end.
 *
 * The first thread marks the device OPENING and calls the driver without any lock. Other threads
 * wait for the outcome. After a failure they try themselves, because its reason may have passed (a
 * moment without memory). May call segments and vmm. */
#include "api/base/text.h"
#include "api/instance/instance.h"
#include "api/instance/oom.h"
#include "api/instance/rounding.h"
#include "vmm/base/assert.h"
#include "vmm/driver.h"

pleat_status pl_use_check_device(const pl_instance *instance, int device)
{
    if ((unsigned)device < (unsigned)instance->n_devices) {
        return PLEAT_OK;
    }
    return pl_error_set(PLEAT_EDEVICE, 0, "there is no device %d: the driver has %d", device,
                        instance->n_devices);
}

pl_gpu *pl_use_open(pleat handle, int device, pl_use *use)
{
    pl_driver_clear_error();
    *use = pl_use_enter(handle);
    if (!use->instance) {
        return NULL;
    }
    pl_gpu *gpu = pl_use_gpu(use->instance, device);
    if (!gpu) {
        pl_use_leave(*use);
    }
    return gpu;
}

pleat_status pl_use_find_used(pl_instance *instance, int device, const char *lacks, pl_gpu **out)
{
    pleat_status st = pl_use_check_device(instance, device);
    *out = pl_use_find_gpu(instance, device);
    return st != PLEAT_OK || *out
               ? st
               : pl_error_set(PLEAT_EFOREIGN, 0, "device %d was never used: %s", device, lacks);
}

/* ---- building ---- */

/* Chooses the device's allocator: the configured allocator if the device supports it. A device that
 * is full for the moment proves nothing: the next request tries again (pl_device_prove), and
 * succeeds once there is memory. A fallback can be chosen no more then. */
static pleat_status choose_ops(const pl_config *config, pl_gpu *gpu)
{
    char why[PL_NOTE_BYTES] = "";
    gpu->note[0] = '\0';
    gpu->ops = config->allocator;
    if (!gpu->ops->needs_vmm) {
        return PLEAT_OK;
    }
    pleat_status st = pl_device_probe(gpu->dev, why, sizeof why);
    if (st == PLEAT_OK) {
        return st;
    }
    if (st == PLEAT_ENOMEM_DEVICE || st == PLEAT_ENOSPACE_VA) {
        pl_driver_clear_error();
        return PLEAT_OK;
    }
    if (st == PLEAT_ENOVMM && config->fallback) {
        pl_text note;
        pl_text_init(&note, gpu->note, sizeof gpu->note);
        pl_text_add(&note, "%s instead of %s: %s", config->fallback->name, gpu->ops->name, why);
        gpu->ops = config->fallback;
        return PLEAT_OK;
    }
    return pl_error_set(st, 0,
                        "device %d: virtual memory management, which the allocator %s needs, "
                        "does not work: %s%s",
                        gpu->ordinal, gpu->ops->name, why,
                        st == PLEAT_ENOVMM ? " (fallback:torch-native does without)" : "");
}

static pleat_status make_allocator(const pl_config *config, pl_gpu *gpu)
{
    pl_allocator_options options = config->options;
    options.limit_bytes = pl_config_limit(config, pl_device_total_bytes(gpu->dev));
    options.observer = &gpu->history.observer;
    pl_driver_clear_error();
    pleat_status st = gpu->ops->create(gpu->dev, &options, &gpu->allocator);
    if (st != PLEAT_OK) {
        const char *detail = pl_driver_last_error()->detail;
        return pl_error_set(st, 0, "device %d: the allocator %s could not be made: %s%s%s",
                            gpu->ordinal, gpu->ops->name, pleat_status_text(st),
                            detail[0] != '\0' ? "; " : "", detail);
    }
    atomic_store(&gpu->limit_bytes, options.limit_bytes);
    atomic_store(&gpu->n_ooms, 0);
    return PLEAT_OK;
}

static pleat_status refuse_open(int device, pleat_status st)
{
    if (st == PLEAT_ENOMEM_DEVICE) {
        return pl_oom_refuse_context(device);
    }
    if (st == PLEAT_EDEVICE ||
        st == PLEAT_EINVAL) { /* the allocator exists; the configuration asks too much */
        return pl_error_set(st, 0, "device %d cannot be used as configured: %s", device,
                            pl_driver_last_error()->detail);
    }
    return pl_error_set(st, 0, "device %d could not be opened: %s", device, pleat_status_text(st));
}

/* Makes the records beside the memory: history, pools, imports, tags. */
static void init_records(pl_gpu *gpu)
{
    pl_history_init(&gpu->history, gpu->ordinal);
    pl_pools_init(&gpu->pools, gpu);
    pl_imports_init(&gpu->imports);
    pl_tags_init(&gpu->tags);
}

static void fini_records(pl_gpu *gpu)
{
    pl_tags_fini(&gpu->tags);
    pl_pools_fini(&gpu->pools);
    pl_history_fini(&gpu->history);
}

/* Imported memory is unmapped before the device closes. */
static size_t close_device(pl_gpu *gpu)
{
    pl_imports_fini(&gpu->imports);
    size_t n_held = pl_device_close(gpu->dev);
    gpu->dev = NULL;
    return n_held;
}

pleat_status pl_gpu_build(pl_instance *instance, int device, pl_gpu *gpu, size_t *n_leaked)
{
    gpu->ordinal = device;
    gpu->instance = instance;
    init_records(gpu);
    pleat_status st = pl_device_open(instance->drv, device, &instance->config.device, &gpu->dev);
    if (st != PLEAT_OK) {
        pl_imports_fini(&gpu->imports);
        fini_records(gpu);
        return refuse_open(device, st);
    }
    pl_history_tell_driver(&gpu->history, pl_driver_teller(instance->drv));
    pl_history_tell_tool(&gpu->history);
    st = choose_ops(&instance->config, gpu);
    if (st == PLEAT_OK) {
        st = make_allocator(&instance->config, gpu);
    }
    if (st != PLEAT_OK) {
        *n_leaked += close_device(gpu);
        fini_records(gpu);
    }
    return st;
}

size_t pl_gpu_demolish(pl_gpu *gpu)
{
    size_t n_live = 0;
    size_t n_leaked = 0;
    pl_pools_forget_checkpoints(&gpu->pools);
    pl_history_leave_tool(&gpu->history);
    pleat_status st = gpu->ops->destroy(gpu->allocator, false, &n_live, &n_leaked);
    if (st != PLEAT_OK) { /* blocks are live, or their fences cannot be queried */
        (void)gpu->ops->destroy(gpu->allocator, true, &n_live, &n_leaked);
    }
    size_t n_held = close_device(gpu); /* counts the allocator's leaks, too */
    fini_records(gpu);
    gpu->allocator = NULL;
    return n_held > n_leaked ? n_held : n_leaked;
}

/* ---- opening ---- */

/* Waits while another thread opens the device, then claims the opening. False: the device is open.
 * */
static bool claim_opening(pl_instance *instance, pl_gpu *gpu, int device)
{
    pl_lock_acquire(&instance->lock);
    while (gpu->is_opening) {
        pl_lock_wait(&instance->lock, &instance->opened);
    }
    gpu->is_opening = pl_use_find_gpu(instance, device) == NULL;
    bool is_claimed = gpu->is_opening;
    pl_lock_release(&instance->lock);
    return is_claimed;
}

/* Makes the device visible to other threads. False: its history cannot be recorded. */
static bool publish(pl_instance *instance, pl_gpu *gpu)
{
    pl_lock_acquire(&instance->lock);
    bool is_ready = pl_history_follow(gpu) == PLEAT_OK;
    if (is_ready) {
        pl_rounding_follow(gpu);
        atomic_store_explicit(&instance->open[gpu->ordinal], gpu, memory_order_release);
    }
    pl_lock_release(&instance->lock);
    return is_ready;
}

pl_gpu *pl_gpu_open(pl_instance *instance, int device)
{
    size_t n_leaked = 0;
    if (pl_use_check_device(instance, device) != PLEAT_OK) {
        return NULL;
    }
    pl_gpu *gpu = instance->gpus + device;
    if (!claim_opening(instance, gpu, device)) {
        return gpu;
    }
    pl_lock_assert_none();
    pleat_status st = pl_gpu_build(instance, device, gpu, &n_leaked);
    bool is_opened = st == PLEAT_OK && publish(instance, gpu);
    if (st == PLEAT_OK && !is_opened) {
        n_leaked += pl_gpu_demolish(gpu);
        pl_error_set(PLEAT_ENOMEM_HOST, 0, "device %d: there is no host memory for its history",
                     device);
    }
    pl_lock_acquire(&instance->lock);
    instance->n_leaked += n_leaked;
    gpu->is_opening = false;
    pl_cond_broadcast(&instance->opened);
    pl_lock_release(&instance->lock);
    return is_opened ? gpu : NULL;
}

#if PLEAT_DEBUG_LEVEL >= 2
/* A walk looks at all blocks, so walks after all calls of a long run take quadratic time. A broken
 * invariant mostly stays broken, and is found some calls later. 11: out of step with most cycles of
 * calls. */
enum { CALLS_WITH_WALK = 1000, CALLS_A_WALK = 11 };

static bool is_turn_to_walk(void)
{
    static atomic_uint n_calls; /* of the process */
    unsigned n = atomic_fetch_add_explicit(&n_calls, 1, memory_order_relaxed);

    return n < CALLS_WITH_WALK || n % CALLS_A_WALK == 0;
}
#endif

pleat_status pl_gpu_compact(pl_gpu *gpu, size_t request, pleat_compaction *told)
{
    pl_mapping_observers *observers = &gpu->instance->observers;
    if (!gpu->ops->compact) {
        return PLEAT_ENOTSUP;
    }
    bool is_observed = !pl_mapping_observers_begin_move(observers);
    pleat_status st = gpu->ops->compact(gpu->allocator, request, is_observed, told);
    if (!is_observed) {
        pl_mapping_observers_end_move(observers, st, &gpu->is_torn);
    }
    pl_gpu_debug_walk(gpu);
    return st;
}

void pl_gpu_debug_walk(pl_gpu *gpu)
{
#if PLEAT_DEBUG_LEVEL >= 2
    pl_assert(!is_turn_to_walk() || gpu->ops->check(gpu->allocator) == 0);
#else
    (void)gpu;
#endif
}
