/* vmm_sim.c - see vmm_sim.h. */
#include "tests/support/vmm/vmm_sim.h"

#include <check.h>
#include <string.h>

static void resolve(const pl_driver *drv, const char *name, void *slot)
{
    void *address = pl_driver_symbol(drv, name);
    ck_assert_msg(address != NULL, "the simulator has no %s", name);
    memcpy(slot, &address, sizeof(address));
}

void vmm_sim_open(vmm_sim *sim, const char *conf)
{
    pleat_status st = pl_driver_open(PL_DRIVER_SIM, conf, &sim->drv);
    ck_assert_msg(st == PLEAT_OK, "opening the simulator: %d, %s", st,
                  pl_driver_last_error()->detail);
#define VMM_SIM_RESOLVE(name) resolve(sim->drv, "pleat_sim_" #name, &sim->name);
    VMM_SIM_LIST(VMM_SIM_RESOLVE)
#undef VMM_SIM_RESOLVE
}

pleat_sim_counts vmm_sim_counted(const vmm_sim *sim)
{
    pleat_sim_counts counts;
    ck_assert_int_eq(sim->count(-1, &counts), 0);
    return counts;
}

void vmm_sim_assert_empty(const vmm_sim *sim)
{
    pleat_sim_counts counts = vmm_sim_counted(sim);
    ck_assert_uint_eq(counts.reservations, 0);
    ck_assert_uint_eq(counts.handles, 0);
    ck_assert_uint_eq(counts.mappings, 0);
    ck_assert_uint_eq(counts.allocations, 0);
    ck_assert_uint_eq(counts.pools, 0);
    ck_assert_uint_eq(counts.pool_bytes, 0);
    ck_assert_uint_eq(counts.events, 0);
}

void vmm_sim_close(vmm_sim *sim)
{
    sim->fail_never();
    sim->finish();
    vmm_sim_assert_empty(sim);
    pleat_sim_counts counts = vmm_sim_counted(sim);
    ck_assert_uint_eq(counts.streams, 0);
    ck_assert_uint_eq(counts.contexts, 0);
    ck_assert(counts.hazards == 0 || sim->has_hazards);
    pl_driver_close(sim->drv);
    sim->drv = NULL;
}

pl_device *vmm_sim_device(const vmm_sim *sim, const pl_device_options *options)
{
    pl_device *dev = NULL;
    ck_assert_int_eq(pl_device_open(sim->drv, 0, options, &dev), PLEAT_OK);
    return dev;
}

void vmm_sim_close_device(pl_device *dev)
{
    ck_assert_uint_eq(pl_device_counted(dev).n_undo_failures, 0);
    ck_assert_uint_eq(pl_device_close(dev), 0);
}

cu_stream vmm_sim_stream(pl_device *dev, bool is_blocking)
{
    cu_stream stream = NULL;
    unsigned flags = is_blocking ? CU_STREAM_DEFAULT_FLAG : CU_STREAM_NON_BLOCKING_FLAG;
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    ck_assert_int_eq(pl_cu_stream_create(pl_device_driver(dev), &stream, flags), CU_SUCCESS);
    pl_device_leave(dev);
    return stream;
}

void vmm_sim_destroy_stream(pl_device *dev, cu_stream stream)
{
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    ck_assert_int_eq(pl_cu_stream_destroy(pl_device_driver(dev), stream), CU_SUCCESS);
    pl_device_leave(dev);
}

void vmm_sim_submit(const vmm_sim *sim, pl_device *dev, cu_stream stream)
{
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    ck_assert_int_eq(sim->work(stream, NULL, 0), CU_SUCCESS);
    pl_device_leave(dev);
}
