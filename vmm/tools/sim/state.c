/* state.c - the one global, its lock, resets, and forks.
 *
 * After cuInit a forked child has no driver: as with a real one, every call answers
 * NOT_INITIALIZED. A fork before cuInit is harmless. The lock is held across fork, so the child
 * finds consistent state. */
#include "vmm/tools/sim/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/tools/sim/cost.h"
#include "vmm/tools/sim/entries/fault.h"
#include "vmm/tools/sim/entries/log.h"
#include "vmm/tools/sim/memory/backing.h"
#include "vmm/tools/sim/memory/memory.h"
#include "vmm/tools/sim/memory/mempool.h"
#include "vmm/tools/sim/work/capture.h"
#include "vmm/tools/sim/work/delay.h"
#include "vmm/tools/sim/work/hazard.h"
#include "vmm/tools/sim/work/late.h"
#include "vmm/tools/sim/work/sim_event.h"
#include "vmm/tools/sim/work/sim_graph.h"
#include "vmm/tools/sim/work/sim_stream.h"
#include "vmm/tools/sim/work/token.h"
#include "vmm/tools/sim/work/user_object.h"

sim_state sim = { .lock = PTHREAD_MUTEX_INITIALIZER };

_Static_assert((int)SIM_N_ENTRIES <= (int)SIM_CONF_ENTRIES, "one place for each entry point");

static char error_text[SIM_ERROR_BYTES]; /* lock */

char *sim_error_text(void)
{
    return error_text;
}

void sim_state_lock(void)
{
    pthread_mutex_lock(&sim.lock);
}

void sim_state_unlock(void)
{
    pthread_mutex_unlock(&sim.lock);
}

static void after_fork_in_child(void)
{
    sim.is_forked = sim.is_forked || (sim.is_initialized && sim.conf.is_fork_refused);
    sim.is_copied = true;
    sim_state_unlock();
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(sim_state_lock, sim_state_unlock, after_fork_in_child);
}

static void free_everything(void)
{
    sim_mempool_fini();
    sim_capture_fini();
    sim_graph_fini();
    sim_event_fini();
    sim_stream_fini();
    sim_user_object_fini();
    for (uint32_t i = 0; i < sim.handles.n_seen; i++) {
        sim_handle *handle = sim_pool_at(&sim.handles, i);
        sim_token_drop(handle);
    }
    sim_late_fini();
    sim_block_fini();
    sim_pool_fini(&sim.contexts);
    sim_pool_fini(&sim.handles);
    sim_pool_fini(&sim.mappings);
    sim_space_fini(&sim.space);
    for (int i = 0; i < sim.conf.n_devices; i++) {
        sim_backing_fini(&sim.devices[i]);
        free(sim.devices[i].order);
    }
    free(sim.active);
    sim_hazard_reset();
    sim_fault_reset();
    sim_log_reset();
}

/* Everything after the lock becomes as in a new process, except what must stay unique. */
static void forget_everything(void)
{
    sim_state old = sim;
    memset((char *)&sim + sizeof(sim.lock), 0, sizeof(sim) - sizeof(sim.lock));
    sim.is_initialized = old.is_initialized;
    sim.is_forked = old.is_forked;
    sim.epoch = old.epoch + 1;
    sim.next_stream_id = old.next_stream_id;
    sim.next_capture_id = old.next_capture_id;
}

void sim_state_reset(const sim_conf *conf)
{
    if (sim.is_configured) {
        free_everything();
    }
    forget_everything();
    memcpy(&sim.conf, conf, sizeof(*conf));
    sim.is_configured = true;
    for (int i = 0; i < SIM_N_ENTRIES; i++) {
        sim_delay_set((sim_entry)i, SIM_DELAY_BEFORE, conf->delay_us[SIM_DELAY_BEFORE][i]);
        sim_delay_set((sim_entry)i, SIM_DELAY_AFTER, conf->delay_us[SIM_DELAY_AFTER][i]);
    }
    sim_space_init(&sim.space, conf);
    sim_pool_init(&sim.contexts, sizeof(sim_context));
    sim_pool_init(&sim.handles, sizeof(sim_handle));
    sim_pool_init(&sim.mappings, sizeof(sim_mapping));
    sim_pool_init(&sim.streams, sizeof(sim_stream));
    sim_pool_init(&sim.events, sizeof(sim_event));
    sim_pool_init(&sim.graphs, sizeof(sim_graph));
    sim_pool_init(&sim.user_objects, sizeof(sim_user_object));
    sim_pool_init(&sim.mempools, sizeof(sim_mempool));
    for (int i = 0; i < conf->n_devices; i++) {
        sim.devices[i].context.device = i;
        sim.devices[i].memory_fd = -1;
        sim_work_init(&sim.devices[i]);
    }
}

/* cuInit has no words, and who called it may be no user of this interface. */
static void blame_environment(void)
{
    static const char ours[] = "simulator";
    static bool is_told; /* lock */
    if (strncmp(error_text, ours, strlen(ours)) == 0) {
        memcpy(error_text, "PLEAT_SIM", strlen(ours));
    }
    if (!is_told) {
        fprintf(stderr, "pleat_sim: %s\n", error_text);
    }
    is_told = true;
}

bool sim_state_configure(void)
{
    sim_conf conf;
    if (sim.is_configured) {
        return true;
    }
    if (!sim_conf_parse(sim_conf_environment(), &conf, error_text, sizeof(error_text)) ||
        !sim_cost_load(conf.costs, error_text, sizeof(error_text))) {
        blame_environment();
        return false;
    }
    sim_state_reset(&conf);
    return true;
}
