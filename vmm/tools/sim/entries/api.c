/* api.c - pleat_sim_*: the simulator's own interface (pleat_sim.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/base/pleat_sim.h"
#include "vmm/tools/sim/cost.h"
#include "vmm/tools/sim/entries/call.h"
#include "vmm/tools/sim/entries/fault.h"
#include "vmm/tools/sim/entries/log.h"
#include "vmm/tools/sim/memory/memory.h"
#include "vmm/tools/sim/memory/mempool.h"
#include "vmm/tools/sim/work/delay.h"
#include "vmm/tools/sim/work/hazard.h"
#include "vmm/tools/sim/work/sim_context.h"
#include "vmm/tools/sim/work/submit.h"

static const char *keeper; /* lock: what the devices belong to; NULL: nothing */
static bool is_abandoned;  /* lock: see pleat_sim_abandon */

/* How much lives that a reset would pull away? What an owner could not give back is nobody's, and
 * cannot be told from other memory, events and contexts. Streams and graphs are the program's. */
static uint64_t count_made(void)
{
    if (is_abandoned) {
        return sim.n_streams + sim.n_graphs + sim.n_user_objects;
    }
    uint64_t pool_bytes = 0;
    uint64_t n = sim.n_streams + sim.n_events + sim.n_graphs + sim.n_user_objects +
                 sim.space.n_user + sim_mempool_count(-1, &pool_bytes);
    for (int i = 0; i < sim.conf.n_devices; i++) {
        n += sim_context_count(i) + sim.devices[i].n_handles + sim.devices[i].n_allocations;
    }
    return n;
}

/* Says why devices in use do not become those of another configuration. */
static void refuse_reset(void)
{
    if (keeper != NULL) {
        snprintf(sim_error_text(), SIM_ERROR_BYTES,
                 "simulator: its devices are those of %s: set them there, and leave sim:[...] out",
                 keeper);
        return;
    }
    snprintf(sim_error_text(), SIM_ERROR_BYTES,
             "simulator: sim:[...] would pull away %llu contexts, streams or pieces of memory that "
             "the program has made: leave it out, and set PLEAT_SIM in the environment to what is "
             "in its brackets; or make the instance first",
             (unsigned long long)count_made());
}

static void reset(const sim_conf *conf)
{
    sim_error_text()[0] = '\0';
    is_abandoned = false;
    sim_fault_reset(); /* also forgets faults set before the first configuration */
    sim_state_reset(conf);
}

int pleat_sim_reset(const char *conf)
{
    sim_conf parsed;
    sim_state_lock();
    char *error = sim_error_text();
    bool is_good = sim_conf_parse(conf, &parsed, error, SIM_ERROR_BYTES) &&
                   sim_cost_load(parsed.costs, error, SIM_ERROR_BYTES);
    if (is_good) {
        reset(&parsed);
    }
    sim_state_unlock();
    return is_good ? 0 : -1;
}

int pleat_sim_configure(const char *conf)
{
    sim_conf parsed;
    sim_state_lock();
    char *error = sim_error_text();
    bool is_good = sim_conf_parse(conf, &parsed, error, SIM_ERROR_BYTES) &&
                   (keeper == NULL || sim_state_configure());
    if (is_good && (keeper != NULL || (!sim.is_copied && sim.is_configured && count_made() > 0))) {
        is_good = sim_conf_is_equal(&parsed, &sim.conf);
        if (!is_good) {
            refuse_reset();
        }
    } else if (is_good) {
        is_good = sim_cost_load(parsed.costs, error, SIM_ERROR_BYTES);
        if (is_good) {
            reset(&parsed);
        }
    }
    sim_state_unlock();
    return is_good ? 0 : -1;
}

void pleat_sim_keep(const char *who)
{
    sim_state_lock();
    keeper = who;
    sim_state_unlock();
}

void pleat_sim_abandon(void)
{
    sim_state_lock();
    is_abandoned = true;
    sim_state_unlock();
}

const char *pleat_sim_error(void)
{
    return sim_error_text();
}

/* Finds the stream as cu* calls do, but a created stream needs no current context, nor does the
 * default one of the only device. */
static cu_result submit_declared(void *handle, const sim_task *task)
{
    sim_context *context = NULL;
    sim_stream *stream;
    cu_result result = sim_context_current(&context);
    if (result == CU_SUCCESS) {
        return sim_submit(handle, task, true);
    }
    if (handle != NULL && handle != (void *)CU_STREAM_LEGACY &&
        handle != (void *)CU_STREAM_PER_THREAD) {
        result = sim_stream_find(handle, &stream);
    } else if (sim.conf.n_devices == 1 && sim.devices[0].context.n_retained > 0 &&
               handle != (void *)CU_STREAM_PER_THREAD) {
        stream = sim_stream_legacy(&sim.devices[0].context);
        result = CU_SUCCESS;
    }
    return result == CU_SUCCESS ? sim_submit_to(stream, task, true) : result;
}

int pleat_sim_work(void *stream, const pleat_sim_access *accesses, size_t n)
{
    sim_call call;
    bool has_first = n > 0 && accesses != NULL;
    sim_call_begin(&call, SIM_OWN_WORK, sim_arg(stream), has_first ? accesses[0].ptr : 0,
                   has_first ? accesses[0].bytes : 0, n);
    if (call.result == CU_SUCCESS && n > 0 && accesses == NULL) {
        call.result = CU_INVALID_VALUE;
    } else if (call.result == CU_SUCCESS) {
        sim_task task = { .kind = SIM_TASK_WORK, .n = n, .accesses = accesses };
        call.result = submit_declared(stream, &task);
    }
    return sim_call_end(&call);
}

int pleat_sim_fill(void *stream, uint64_t ptr, uint64_t bytes, uint64_t seed)
{
    sim_call call;
    sim_call_begin(&call, SIM_OWN_FILL, sim_arg(stream), ptr, bytes, seed);
    if (call.result == CU_SUCCESS) {
        pleat_sim_access access = { ptr, bytes, true };
        sim_task task = { .kind = SIM_TASK_FILL, .value = seed, .n = 1, .accesses = &access };
        call.result = submit_declared(stream, &task);
    }
    return sim_call_end(&call);
}

int pleat_sim_verify(void *stream, uint64_t ptr, uint64_t bytes, uint64_t seed)
{
    sim_call call;
    sim_call_begin(&call, SIM_OWN_VERIFY, sim_arg(stream), ptr, bytes, seed);
    if (call.result == CU_SUCCESS) {
        pleat_sim_access access = { ptr, bytes, false };
        sim_task task = { .kind = SIM_TASK_VERIFY, .value = seed, .n = 1, .accesses = &access };
        call.result = submit_declared(stream, &task);
    }
    return sim_call_end(&call);
}

static cu_result submit_use(void *stream, void *after, const pleat_sim_access *access,
                            uint64_t *use)
{
    sim_stream *it;
    sim_stream *before;
    cu_result result = sim_stream_find(stream, &it);
    result = result == CU_SUCCESS ? sim_stream_find(after, &before) : result;
    if (result != CU_SUCCESS) {
        return result;
    }
    if (it->capture != NULL || before->capture != NULL) {
        return CU_NOT_SUPPORTED;
    }
    sim_stream_gather(before, &it->deps);
    sim_task task = { .kind = SIM_TASK_WORK, .n = 1, .accesses = access, .lasts = true };
    result = sim_submit_to(it, &task, false);
    if (result == CU_SUCCESS) {
        *use = it->submitted;
    }
    return result;
}

int pleat_sim_use(void *stream, void *after, uint64_t ptr, uint64_t bytes, uint64_t *use)
{
    sim_call call;
    sim_call_begin(&call, SIM_OWN_USE, sim_arg(stream), ptr, bytes, sim_arg(after));
    if (call.result == CU_SUCCESS && use == NULL) {
        call.result = CU_INVALID_VALUE;
    } else if (call.result == CU_SUCCESS) {
        pleat_sim_access access = { ptr, bytes, true };
        call.result = submit_use(stream, after, &access, use);
    }
    return sim_call_end(&call);
}

int pleat_sim_use_end(void *stream, uint64_t use)
{
    sim_call call;
    sim_stream *it;
    sim_call_begin(&call, SIM_OWN_USE_END, sim_arg(stream), use, 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = sim_stream_find(stream, &it);
    }
    if (call.result == CU_SUCCESS && (use == 0 || use > it->submitted)) {
        call.result = CU_INVALID_VALUE;
    } else if (call.result == CU_SUCCESS) {
        sim_work_end(it, use);
    }
    return sim_call_end(&call);
}

void pleat_sim_finish(void)
{
    sim_call call;
    sim_call_begin(&call, SIM_OWN_FINISH, 0, 0, 0, 0);
    if (call.result == CU_SUCCESS) {
        sim_work_finish_all();
        sim_mempool_synchronized();
    }
    (void)sim_call_end(&call);
}

void pleat_sim_advance(int device, uint64_t n)
{
    sim_call call;
    sim_call_begin(&call, SIM_OWN_ADVANCE, n, 0, 0, 0);
    for (int i = 0; call.result == CU_SUCCESS && i < sim.conf.n_devices; i++) {
        if (device < 0 || device == i) {
            sim_work_advance(&sim.devices[i], n);
        }
    }
    (void)sim_call_end(&call);
}

/* Also prints, since a test that lost its fault or delay would pass without testing anything. */
static void refuse(const char *what, const char *name, const char *why)
{
    snprintf(sim_error_text(), SIM_ERROR_BYTES, "simulator: no %s set: \"%s\" %s", what,
             name == NULL ? "any" : name, why);
    fprintf(stderr, "%s\n", sim_error_text());
}

static void add_fault(const char *name, uint64_t k, int code, bool is_from)
{
    sim_state_lock();
    sim_entry entry = name == NULL ? SIM_N_ENTRIES : sim_entry_find(name);
    if ((name != NULL && entry >= SIM_N_CU_ENTRIES) || !sim_fault_add(entry, k, is_from, code)) {
        refuse("fault", name, "is no entry point, or there are too many faults");
    }
    sim_state_unlock();
}

void pleat_sim_fail_at(const char *call, uint64_t k, int code)
{
    add_fault(call, k, code, false);
}

void pleat_sim_fail_from(const char *call, uint64_t k, int code)
{
    add_fault(call, k, code, true);
}

void pleat_sim_break(int code)
{
    sim_state_lock();
    sim.broken = code;
    sim_state_unlock();
}

void pleat_sim_fail_never(void)
{
    sim_state_lock();
    sim_fault_clear();
    sim_state_unlock();
}

static void set_delay(const char *name, unsigned us, sim_delay_when when)
{
    sim_state_lock();
    sim_entry entry = name == NULL ? SIM_N_ENTRIES : sim_entry_find(name);
    if ((name != NULL && entry == SIM_N_ENTRIES) ||
        (us > SIM_DELAY_MOST && us != PLEAT_SIM_YIELD)) {
        refuse("delay", name, "is no entry point, or that is more than 10 seconds");
    } else {
        sim_delay_set(entry, when, us == PLEAT_SIM_YIELD ? SIM_DELAY_YIELD : us);
    }
    sim_state_unlock();
}

void pleat_sim_delay(const char *call, unsigned us)
{
    set_delay(call, us, SIM_DELAY_BEFORE);
}

void pleat_sim_delay_after(const char *call, unsigned us)
{
    set_delay(call, us, SIM_DELAY_AFTER);
}

uint64_t pleat_sim_n_faults(void)
{
    sim_state_lock();
    uint64_t n = sim_fault_count();
    sim_state_unlock();
    return n;
}

static void count_device(const sim_device *device, pleat_sim_counts *counts)
{
    counts->handles += device->n_handles;
    counts->mappings += device->n_mappings;
    counts->allocations += device->n_allocations;
    counts->contexts += sim_context_count(device->context.device);
    counts->physical_bytes += device->physical_bytes;
    counts->imported_bytes += device->imported_bytes;
    counts->mapped_bytes += device->mapped_bytes;
    counts->peak_physical_bytes += device->peak_physical_bytes;
    counts->capacity_bytes += sim.conf.capacity_bytes;
}

static uint64_t count_unfinished(int device)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < sim.n_active; i++) {
        if (device < 0 || sim.active[i]->context->device == device) {
            n += sim.active[i]->submitted - sim.active[i]->finished;
        }
    }
    return n;
}

bool pleat_sim_has_contents(void)
{
    sim_state_lock();
    bool has_memory = sim.is_configured && sim.conf.has_memory;
    sim_state_unlock();
    return has_memory;
}

int pleat_sim_count(int device, pleat_sim_counts *out)
{
    pleat_sim_counts counts = { 0 };
    sim_state_lock();
    bool is_good = sim.is_configured && (device < 0 || sim_device_at(device) != NULL);
    for (int i = 0; is_good && i < sim.conf.n_devices; i++) {
        if (device < 0 || device == i) {
            count_device(&sim.devices[i], &counts);
        }
    }
    counts.reservations = sim.space.n_user;
    counts.reserved_bytes = sim.space.user_bytes;
    counts.host_bytes = sim.host_bytes;
    counts.streams = sim.n_streams;
    counts.events = sim.n_events;
    counts.graphs = sim.n_graphs;
    counts.user_objects = sim.n_user_objects;
    counts.unfinished_work = count_unfinished(device);
    counts.hazards = sim_hazard_count();
    counts.calls = sim.n_cu_calls;
    counts.lost_objects = sim.n_lost;
    counts.pools = sim_mempool_count(device, &counts.pool_bytes);
    sim_state_unlock();
    if (is_good) {
        *out = counts;
    }
    return is_good ? 0 : -1;
}

uint64_t pleat_sim_compared(void)
{
    sim_state_lock();
    bool is_cut = sim.is_configured && sim.has_aged && sim.worker == UINT64_MAX;
    uint64_t n = is_cut ? sim.conf.depth : UINT64_MAX;
    sim_state_unlock();
    return n;
}

uint64_t pleat_sim_n_calls(const char *call)
{
    sim_state_lock();
    sim_entry entry = sim_entry_find(call);
    uint64_t n = entry == SIM_N_ENTRIES ? 0 : sim.n_calls[entry];
    sim_state_unlock();
    return n;
}

double pleat_sim_cost_us(void)
{
    sim_state_lock();
    double us = sim.cost_us;
    sim_state_unlock();
    return us;
}

static int compare_address(const void *a, const void *b)
{
    uint64_t left = ((const pleat_sim_mapping *)a)->ptr;
    uint64_t right = ((const pleat_sim_mapping *)b)->ptr;
    return (left > right) - (left < right);
}

/* All mappings made by the user, in address order. The caller frees the list. */
static pleat_sim_mapping *list_mappings(size_t *n)
{
    pleat_sim_mapping *list = sim_new((sim.mappings.n_seen + 1) * sizeof(list[0]));
    *n = 0;
    for (uint32_t i = 0; i < sim.mappings.n_seen; i++) {
        const sim_mapping *it = sim_pool_at(&sim.mappings, i);
        if (it->is_live && !it->handle->is_linear) {
            list[(*n)++] = (pleat_sim_mapping){
                .ptr = it->ptr,
                .bytes = it->bytes,
                .handle = sim_handle_value(it->handle),
                .device = it->handle->device,
                .access = sim_mapping_access(it, it->handle->device),
            };
        }
    }
    qsort(list, *n, sizeof(list[0]), compare_address);
    return list;
}

size_t pleat_sim_mappings(pleat_sim_mapping *out, size_t n)
{
    size_t n_all;
    sim_state_lock();
    pleat_sim_mapping *list = list_mappings(&n_all);
    sim_state_unlock();
    size_t n_copied = n < n_all ? n : n_all;
    if (n_copied > 0) {
        memcpy(out, list, n_copied * sizeof(out[0]));
    }
    free(list);
    return n_all;
}

size_t pleat_sim_hazards(pleat_sim_hazard *out, size_t n)
{
    sim_state_lock();
    size_t n_found = sim_hazard_copy(out, n);
    sim_state_unlock();
    return n_found;
}

int pleat_sim_write_log(const char *path)
{
    sim_state_lock();
    int status = sim_log_write(path);
    sim_state_unlock();
    return status;
}
