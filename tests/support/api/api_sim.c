/* api_sim.c - instances on the simulator for the tests of api. */
#include "tests/support/api/api_sim.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/calls/internal.h"
#include "tests/support/suite.h"
#include "vmm/driver.h"

const char *const api_allocators[] = { "torch-native", "pleat", "torch-expandable" };
api_sim sim;

static void load(pl_driver *drv, const char *name, void *field)
{
    void *address = pl_driver_symbol(drv, name);
    ck_assert_msg(address != NULL, "the simulator has no %s", name);
    memcpy(field, &address, sizeof address);
}

void api_sim_load(void)
{
    static pl_driver *drv;
    ck_assert_int_eq(setenv("PLEAT_CONF", "driver:sim", 1), 0);
    ck_assert_int_eq(pl_driver_open(PL_DRIVER_SIM, "capacity:64M", &drv), PLEAT_OK);
    load(drv, "pleat_sim_reset", &sim.reset);
    load(drv, "pleat_sim_work", &sim.work);
    load(drv, "pleat_sim_fill", &sim.fill);
    load(drv, "pleat_sim_verify", &sim.verify);
    load(drv, "pleat_sim_finish", &sim.finish);
    load(drv, "pleat_sim_n_calls", &sim.n_calls);
    load(drv, "pleat_sim_fail_at", &sim.fail_at);
    load(drv, "pleat_sim_fail_from", &sim.fail_from);
    load(drv, "pleat_sim_fail_never", &sim.fail_never);
    load(drv, "pleat_sim_break", &sim.broken);
    load(drv, "pleat_sim_n_faults", &sim.n_faults);
    load(drv, "pleat_sim_count", &sim.count);
    load(drv, "pleat_sim_delay", &sim.delay);
    load(drv, "pleat_sim_delay_after", &sim.delay_after);
    load(drv, "pleat_sim_hazards", &sim.hazards);
    load(drv, "pleat_sim_use", &sim.use);
    load(drv, "pleat_sim_use_end", &sim.use_end);
    pl_driver_close(drv); /* the shared object stays loaded */
}

pleat_sim_counts api_sim_counts(void)
{
    pleat_sim_counts counts;
    ck_assert_int_eq(sim.count(-1, &counts), 0);
    return counts;
}

void api_sim_check_empty(void)
{
    pleat_sim_counts counts = api_sim_counts();
    ck_assert_uint_eq(counts.reservations, 0);
    ck_assert_uint_eq(counts.handles, 0);
    ck_assert_uint_eq(counts.mappings, 0);
    ck_assert_uint_eq(counts.allocations, 0);
    ck_assert_uint_eq(counts.host_bytes, 0);
    ck_assert_uint_eq(counts.events, 0);
    ck_assert_uint_eq(counts.contexts, 0);
    pleat_sim_hazard hazard;
    if (sim.hazards(&hazard, 1) != 0) {
        ck_abort_msg("hazard: %s", hazard.text);
    }
}

pleat api_make(int allocator, const char *sim_conf, const char *more)
{
    char conf[512];
    pleat instance;
    int n = snprintf(conf, sizeof conf, "driver:sim,sim:[%s],allocator:%s%s%s",
                     allocator == API_PLEAT ? suite_sim_conf(sim_conf) : sim_conf,
                     api_allocators[allocator], more[0] != '\0' ? "," : "", more);
    ck_assert_int_lt(n, (int)sizeof conf);
    pleat_status st = pleat_create(conf, &instance);
    ck_assert_msg(st == PLEAT_OK, "%s: %s", conf, pleat_last_error()->text);
    return instance;
}

void api_unmake(pleat instance)
{
    sim.finish();
    pleat_status st = pleat_destroy(instance, 0);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
    api_sim_check_empty();
}

pleat_devptr api_alloc(pleat instance, int device, size_t bytes, void *stream)
{
    pleat_devptr ptr = 0;
    pleat_status st = pleat_block_alloc(instance, device, bytes, stream, &ptr);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
    ck_assert_uint_ne(ptr, 0);
    ck_assert_uint_eq(ptr % 512, 0);
    return ptr;
}

void api_free(pleat instance, int device, pleat_devptr ptr, void *stream)
{
    pleat_status st = pleat_block_free(instance, device, ptr, stream);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
}

pleat_stats api_stats(pleat instance, int device)
{
    pleat_stats stats;
    ck_assert_int_eq(pleat_device_stats(instance, device, &stats), PLEAT_OK);
    return stats;
}

void api_check(pleat instance)
{
    int broken = -1;
    ck_assert_int_eq(pleat_check(instance, &broken), PLEAT_OK);
    ck_assert_int_eq(broken, 0);
}

void *api_stream(pleat instance, int device)
{
    pl_device *dev = pleat_internal_device(instance, device);
    ck_assert_ptr_nonnull(dev);
    void *stream = NULL;
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    int result = pl_cu_stream_create(pl_device_driver(dev), (void *)&stream, 1);
    pl_device_leave(dev);
    ck_assert_int_eq(result, 0);
    return stream;
}

void api_stream_end(pleat instance, int device, void *stream)
{
    pl_device *dev = pleat_internal_device(instance, device);
    ck_assert_ptr_nonnull(dev);
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    int result = pl_cu_stream_destroy(pl_device_driver(dev), stream);
    pl_device_leave(dev);
    ck_assert_int_eq(result, 0);
}

void api_stream_order(pleat instance, int device, void *earlier, void *later)
{
    cu_event event = NULL;
    pl_device *dev = pleat_internal_device(instance, device);
    ck_assert_ptr_nonnull(dev);
    pl_driver *drv = pl_device_driver(dev);
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    ck_assert_int_eq(pl_cu_event_create(drv, &event, CU_EVENT_DISABLE_TIMING_FLAG), 0);
    ck_assert_int_eq(pl_cu_event_record(drv, event, earlier), 0);
    ck_assert_int_eq(pl_cu_stream_wait_event(drv, later, event, 0), 0);
    ck_assert_int_eq(pl_cu_event_destroy(drv, event), 0);
    pl_device_leave(dev);
}

void api_expect_error(pleat_status status, const char *const *parts)
{
    const pleat_error *error = pleat_last_error();
    ck_assert_msg(error->status == status, "%s: %s", pleat_status_text(error->status), error->text);
    for (; *parts; parts++) {
        ck_assert_msg(strstr(error->text, *parts) != NULL, "no '%s' in: %s", *parts, error->text);
    }
}
