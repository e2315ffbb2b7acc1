/* create.c - makes and destroys instances. */
#include <string.h>

#include "api/base/text.h"
#include "api/calls/internal.h"
#include "api/instance/policy.h"
#include "api/instance/rounding.h"
#include "api/instance/slot.h"
#include "api/metrics/metrics.h"
#include "vmm/base/cancel.h"
#include "vmm/driver.h"

/* ---- making ---- */

static bool is_sim_in_use_locked(void)
{
    pl_lock_assert(&pl_api_state.lock);
    for (unsigned i = 0; i < PL_N_SLOTS; i++) {
        bool is_ours = pl_slots[i].state != PL_SLOT_FREE && pl_slots[i].state != PL_SLOT_FORKED;
        if (is_ours && pl_slots[i].is_on_sim) {
            return true;
        }
    }
    return false;
}

/* Chooses the configuration that resets the simulator: the configured string, or NULL for no reset,
 * because another instance uses the simulator with an equal string. */
static pleat_status choose_sim_conf(const pl_config *config, const char **out)
{
    *out = config->has_sim_conf ? config->sim_conf : NULL;
    if (config->driver == PL_DRIVER_CUDA) {
        *out = NULL;
    }
    pl_api_acquire();
    bool is_in_use = is_sim_in_use_locked();
    bool is_same = *out && pl_api_state.has_sim_conf && strcmp(pl_api_state.sim_conf, *out) == 0;
    if (!is_in_use) {
        pl_api_state.has_sim_conf = *out != NULL;
        memcpy(pl_api_state.sim_conf, config->sim_conf, sizeof config->sim_conf);
    }
    pl_api_release();
    if (*out && is_in_use && !is_same) {
        return pl_error_set(PLEAT_ECONF, 0,
                            "sim:[%s]: another instance uses the simulator with another "
                            "configuration, and a reset would pull it away: destroy it first",
                            *out);
    }
    if (is_in_use) {
        *out = NULL;
    }
    return PLEAT_OK;
}

static pleat_status open_driver(const pl_config *config, pl_driver **out, int *n_devices)
{
    const char *sim_conf;
    pl_driver *drv;
    int n = 0;
    pleat_status st = choose_sim_conf(config, &sim_conf);
    if (st != PLEAT_OK) {
        return st;
    }
    st = pl_driver_open(config->driver, sim_conf, &drv);
    if (st != PLEAT_OK) {
        return pl_error_set(st, 0, "%s", pleat_status_text(st));
    }
    if (pl_cu_device_count(drv, &n) != 0) {
        st = pl_error_set(PLEAT_EDRIVER, 0, "the driver does not tell how many devices it has");
        pl_driver_close(drv);
        return st;
    }
    *out = drv;
    *n_devices = n < PL_N_DEVICES ? n : PL_N_DEVICES;
    return PLEAT_OK;
}

static void instance_init(pl_slot *slot, const pl_config *config)
{
    static const unsigned flags_of[] = {
        [PL_HISTORY_FRAMES_NONE] = 0,
        [PL_HISTORY_FRAMES_ALLOC] = PLEAT_HISTORY_FRAMES,
        [PL_HISTORY_FRAMES_ALL] = PLEAT_HISTORY_FRAMES | PLEAT_HISTORY_FREE_FRAMES,
    };
    pl_instance *instance = &slot->instance;
    memset(instance, 0, sizeof *instance);
    pl_lock_init(&instance->lock, PL_RANK_API);
    pl_mapping_observers_init(&instance->observers);
    instance->config = *config;
    instance->config.device.watch = &instance->observers.watch;
    instance->history_entries = config->history_entries;
    memcpy(instance->roundup_divisions, config->options.roundup_divisions,
           sizeof instance->roundup_divisions);
    instance->history_flags = flags_of[config->history_frames];
    if (instance->history_flags != 0) {
        pl_stack_prepare();
    }
    instance->handle = (pleat){ (uint32_t)(slot - pl_slots) + 1, slot->generation };
}

static void instance_fini(pl_instance *instance)
{
    pl_mapping_observers_fini(&instance->observers);
    pl_lock_fini(&instance->lock);
}

static pleat_status create_alone(const pl_config *config, pleat *out)
{
    pl_slot *slot;
    pleat_status st = pl_slot_take(&slot);
    if (st != PLEAT_OK) {
        return st;
    }
    instance_init(slot, config);
    st = pl_policy_load(&slot->instance);
    if (st != PLEAT_OK) {
        goto undo_init;
    }
    st = open_driver(config, &slot->instance.drv, &slot->instance.n_devices);
    if (st != PLEAT_OK) {
        goto undo_init;
    }
    pl_driver_time_calls(slot->instance.drv, config->time_calls);
    *out = slot->instance.handle;
    pl_slot_publish(slot, pl_driver_kind_of(slot->instance.drv) == PL_DRIVER_SIM);
    pl_metrics_join(&slot->instance);
    return PLEAT_OK;

undo_init:
    instance_fini(&slot->instance);
    pl_slot_give_back(slot);
    return st;
}

pleat_status pleat_create(const char *conf, pleat *out)
{
    pl_config config;
    pl_driver_clear_error();
    pleat_status st = pl_config_read(conf, &config);
    if (st != PLEAT_OK || !out) {
        return st;
    }
    int cancel = pl_cancel_off(); /* the loader and the driver's start read files */
    pl_api_claim(&pl_api_state.is_creating);
    st = create_alone(&config, out);
    pl_api_unclaim(&pl_api_state.is_creating);
    pl_cancel_restore(cancel);
    return st;
}

/* ---- destroying ---- */

static uint64_t count_live(pl_instance *instance)
{
    uint64_t n_live = 0;
    for (int i = 0; i < instance->n_devices; i++) {
        pl_gpu *gpu = pl_use_find_gpu(instance, i);
        if (gpu) {
            pleat_stats stats;
            gpu->ops->stats(gpu->allocator, &stats);
            n_live += stats.allocation[PLEAT_SIZES_ALL].current;
            n_live += atomic_load(&gpu->imports.n_opens);
        }
    }
    return n_live;
}

static pleat_status refuse_busy(uint64_t n_live)
{
    return pl_error_set(PLEAT_EBUSY, 0,
                        "%llu blocks are still live, or open from other processes: free or close "
                        "them, or pass PLEAT_DESTROY_FORCE",
                        (unsigned long long)n_live);
}

/* Checks before the instance is closed, so that other threads do not notice a refusal. */
static pleat_status check_destroyable(pleat handle, bool is_forced)
{
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    uint64_t n_live = is_forced ? 0 : count_live(use.instance);
    pl_use_leave(use);
    if (pl_thread_self.is_in_callback) {
        return pl_error_set(PLEAT_EBUSY, 0,
                            "an instance cannot be destroyed from within a pleat callback");
    }
    return n_live == 0 ? PLEAT_OK : refuse_busy(n_live);
}

/* A driver that has ended (at the exit of the process) took everything along. */
static pleat_status report_leaks(size_t n_leaked)
{
    enum { DEINITIALIZED = 4 }; /* the driver's result after its end */
    if (n_leaked == 0 || pl_driver_last_error()->result == DEINITIALIZED) {
        return PLEAT_OK;
    }
    return pl_error_set(PLEAT_EPOISONED, 0,
                        "the instance is destroyed, but %zu driver objects (mappings, chunks, "
                        "address ranges, events) could not be given back",
                        n_leaked);
}

static pleat_status demolish(pl_slot *slot)
{
    pl_instance *instance = &slot->instance;
    pl_metrics_leave(instance);
    size_t n_leaked = instance->n_leaked + pl_driver_n_lost(instance->drv);
    for (int i = 0; i < instance->n_devices; i++) {
        pl_gpu *gpu = pl_use_find_gpu(instance, i);
        n_leaked += gpu ? pl_gpu_demolish(gpu) : 0;
    }
    pleat_status st = report_leaks(n_leaked);
    if (st != PLEAT_OK) {
        pl_driver_abandon(instance->drv);
    }
    pl_driver_close(instance->drv);
    instance_fini(instance);
    pl_slot_give_back(slot);
    return st;
}

pleat_status pleat_destroy(pleat handle, unsigned flags)
{
    pl_slot *slot;
    bool is_forced = (flags & PLEAT_DESTROY_FORCE) != 0;
    pl_driver_clear_error();
    if ((flags & ~(unsigned)PLEAT_DESTROY_FORCE) != 0) {
        return pl_error_set(PLEAT_EINVAL, 0, "pleat_destroy: unknown flags 0x%x", flags);
    }
    pleat_status st = check_destroyable(handle, is_forced);
    if (st == PLEAT_OK) {
        st = pl_slot_close(handle, &slot);
    }
    if (st != PLEAT_OK) {
        return st;
    }
    uint64_t n_live = is_forced ? 0 : count_live(&slot->instance);
    if (n_live > 0) {
        pl_slot_reopen(slot);
        return refuse_busy(n_live);
    }
    return demolish(slot);
}

/* ---- access for the command ---- */

pl_driver *pleat_internal_driver(pleat handle)
{
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return NULL;
    }
    pl_driver *drv = use.instance->drv;
    pl_use_leave(use);
    return drv;
}

static pl_gpu *find_gpu(pleat handle, int device)
{
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return NULL;
    }
    pl_gpu *gpu = pl_use_gpu(use.instance, device);
    pl_use_leave(use);
    return gpu;
}

pl_device *pleat_internal_device(pleat handle, int device)
{
    pl_gpu *gpu = find_gpu(handle, device);
    return gpu ? gpu->dev : NULL;
}

pl_allocator *pleat_internal_allocator(pleat handle, int device)
{
    pl_gpu *gpu = find_gpu(handle, device);
    return gpu ? gpu->allocator : NULL;
}

pleat_status pleat_instance_conf(pleat handle, char *text, size_t capacity, size_t *needed)
{
    if (!needed || (!text && capacity > 0)) {
        return pl_error_set(PLEAT_EINVAL, 0, "pleat_instance_conf: `%s` is NULL",
                            needed ? "text" : "needed");
    }
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    const pl_config now = pl_instance_config_now(use.instance);
    *needed = pl_config_write(&now, text, capacity);
    pl_use_leave(use);
    return PLEAT_OK;
}
