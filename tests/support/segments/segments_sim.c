/* segments_sim.c - see segments_sim.h. */
#include "tests/support/segments/segments_sim.h"
#include "segments/pleat/space/options.h"
#include "segments/pleat/space/space.h"
#include "tests/support/own.h"
#include "tests/support/suite.h"

#include <check.h>
#include <string.h>

pleat_fixture pleat;

static void make_stream(unsigned i)
{
    cu_stream handle = NULL;
    if (i > 0) {
        ck_assert_int_eq(pl_cu_stream_create(pleat.sim.drv, &handle, CU_STREAM_NON_BLOCKING_FLAG),
                         CU_SUCCESS);
    }
    pleat.handles[i] = handle;
    ck_assert_int_eq(pl_stream_get(pleat.dev, handle, &pleat.streams[i]), PLEAT_OK);
}

void pleat_open_device(const char *sim_conf, const pl_device_options *device_options,
                       const pl_allocator_options *options)
{
    pl_allocator_options defaults;
    pl_allocator_options_init(&defaults);
    memset(&pleat, 0, sizeof(pleat));
    pl_meta_fail_never();
    vmm_sim_open(&pleat.sim, suite_sim_conf(sim_conf));
    pleat.dev = vmm_sim_device(&pleat.sim, device_options);
    ck_assert_int_eq(pl_device_enter(pleat.dev), PLEAT_OK);
    for (unsigned i = 0; i < PLEAT_N_STREAMS; i++) {
        make_stream(i);
    }
    options = options != NULL ? options : &defaults;
    ck_assert_int_eq(pl_pleat_ops.create(pleat.dev, options, &pleat.a), PLEAT_OK);
}

void pleat_open(const char *sim_conf, const pl_allocator_options *options)
{
    pleat_open_device(sim_conf, NULL, options);
}

void pleat_open_granules(const char *sim_conf)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    SET_OWN(pleat, &options, chunks, PL_CHUNKS_GRANULE);
    pleat_open(sim_conf, &options);
}

void pleat_open_with(const char *sim_conf, pl_cross_stream cross_stream, uint32_t wait_ms)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    SET_OWN(pleat, &options, cross_stream, cross_stream);
    options.wait_ms = wait_ms;
    pleat_open(sim_conf, &options);
}

void pleat_close(void)
{
    size_t n_live = 0;
    size_t n_leaked = 0;
    pl_meta_fail_never();
    pleat.sim.fail_never();
    if (pleat.a != NULL) {
        pleat_assert_sound();
        ck_assert_int_eq(pleat.a->ops->destroy(pleat.a, true, &n_live, &n_leaked), PLEAT_OK);
        ck_assert_uint_eq(n_leaked, 0);
    }
    for (unsigned i = 1; i < PLEAT_N_STREAMS; i++) {
        ck_assert_int_eq(pl_cu_stream_destroy(pleat.sim.drv, pleat.handles[i]), CU_SUCCESS);
    }
    pl_device_leave(pleat.dev);
    if (pleat.has_failed_undo) {
        ck_assert_uint_gt(pl_device_counted(pleat.dev).n_undo_failures, 0);
        ck_assert_uint_eq(pl_device_close(pleat.dev), 0);
    } else {
        vmm_sim_close_device(pleat.dev);
    }
    vmm_sim_close(&pleat.sim);
}

void pleat_renew_stream(unsigned i)
{
    ck_assert_int_eq(pl_cu_stream_destroy(pleat.sim.drv, pleat.handles[i]), CU_SUCCESS);
    make_stream(i);
}

void pleat_assert_sound(void)
{
    ck_assert_int_eq(pleat.a->ops->check(pleat.a), 0);
    ck_assert(vmm_sim_counted(&pleat.sim).hazards == 0 || pleat.sim.has_hazards);
}

void pleat_walk_every(unsigned n_calls)
{
    pleat.walk_every = n_calls;
}

static void walk_if_due(void)
{
    if (++pleat.n_unwalked >= pleat.walk_every) {
        pleat.n_unwalked = 0;
        pleat_assert_sound();
    }
}

static pleat_status ask(size_t bytes, unsigned stream, pleat_devptr *out)
{
    return pleat.a->ops->alloc(pleat.a, bytes, pleat.streams[stream], out);
}

pleat_devptr pleat_get(size_t bytes, unsigned stream)
{
    pleat_devptr ptr = 0;
    pleat_status st = ask(bytes, stream, &ptr);
    const pl_driver_error *error = pl_driver_last_error();
    ck_assert_msg(st == PLEAT_OK, "%zu bytes: status %d, last %s = %d, %s", bytes, (int)st,
                  pl_entry_symbol(error->entry), error->result, error->detail);
    ck_assert_uint_ne(ptr, 0);
    ck_assert_uint_eq(ptr % 512, 0);
    walk_if_due();
    return ptr;
}

void pleat_put(pleat_devptr ptr, unsigned stream)
{
    ck_assert_int_eq(pleat.a->ops->free(pleat.a, ptr, pleat.streams[stream]), PLEAT_OK);
    walk_if_due();
}

void pleat_record(pleat_devptr ptr, unsigned stream)
{
    ck_assert_int_eq(pleat.a->ops->record_stream(pleat.a, ptr, pleat.streams[stream]), PLEAT_OK);
}

uint64_t pleat_trim(uint64_t keep_bytes, bool wait)
{
    uint64_t released = 0;
    ck_assert_int_eq(pleat.a->ops->trim(pleat.a, keep_bytes, wait, &released), PLEAT_OK);
    pleat_assert_sound();
    return released;
}

pleat_stats pleat_counted_mixed(void)
{
    pleat_stats s;
    pleat.a->ops->stats(pleat.a, &s);
    ck_assert_uint_eq(s.allocated_bytes[PLEAT_SIZES_ALL].current + s.free_bytes + s.pending_bytes +
                          s.idle_bytes,
                      s.resident_bytes);
    ck_assert_uint_eq(s.resident_bytes, vmm_sim_counted(&pleat.sim).physical_bytes);
    return s;
}

pleat_stats pleat_counted(void)
{
    pleat_stats s;
    pleat.a->ops->stats(pleat.a, &s);
    ck_assert_uint_eq(s.allocated_bytes[PLEAT_SIZES_ALL].current + s.free_bytes + s.pending_bytes +
                          s.idle_bytes + s.pinned_granules * s.granule_bytes,
                      s.resident_bytes);
    ck_assert_uint_eq(s.resident_bytes, vmm_sim_counted(&pleat.sim).physical_bytes);
    return s;
}

pleat_status pleat_refused(size_t bytes, unsigned stream)
{
    pleat_devptr ptr = 4711;
    pleat_stats before;
    pleat_stats after;
    pleat.a->ops->stats(pleat.a, &before);
    pleat_status st = ask(bytes, stream, &ptr);
    ck_assert_int_ne(st, PLEAT_OK);
    ck_assert_uint_eq(ptr, 4711);
    pleat.a->ops->stats(pleat.a, &after);
    ck_assert_uint_eq(after.allocation[0].current, before.allocation[0].current);
    ck_assert_uint_eq(after.allocation[0].allocated, before.allocation[0].allocated);
    ck_assert_uint_eq(after.allocated_bytes[0].current, before.allocated_bytes[0].current);
    ck_assert_uint_eq(after.allocated_bytes[0].peak, before.allocated_bytes[0].peak);
    ck_assert_uint_eq(after.live_granules, before.live_granules);
    ck_assert_uint_eq(after.peak_live_granules, before.peak_live_granules);
    pleat_assert_sound();
    return st;
}

pleat_block_info pleat_info(pleat_devptr ptr)
{
    pleat_block_info info;
    ck_assert_int_eq(pleat.a->ops->query(pleat.a, ptr, &info), PLEAT_OK);
    return info;
}

void pleat_work(unsigned stream, pleat_devptr ptr, size_t bytes)
{
    pleat_sim_access access = { .ptr = ptr, .bytes = bytes, .is_write = true };
    ck_assert_int_eq(pleat.sim.work(pleat.handles[stream], &access, 1), CU_SUCCESS);
}

pleat_devptr pleat_get_and_use(size_t bytes, unsigned stream)
{
    pleat_devptr ptr = pleat_get(bytes, stream);
    pleat_work(stream, ptr, bytes);
    walk_if_due();
    return ptr;
}

void pleat_work_after(unsigned stream, unsigned before, pleat_devptr ptr, size_t bytes)
{
    cu_event event = NULL;
    pl_driver *drv = pleat.sim.drv;
    ck_assert_int_eq(pl_cu_event_create(drv, &event, CU_EVENT_DISABLE_TIMING_FLAG), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_event_record(drv, event, pleat.handles[before]), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_stream_wait_event(drv, pleat.handles[stream], event, 0), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_event_destroy(drv, event), CU_SUCCESS);
    pleat_work(stream, ptr, bytes);
}

uint64_t pleat_calls(const char *symbol)
{
    return pleat.sim.n_calls(symbol);
}

uint64_t pleat_steps(void)
{
    return ((const pl_space *)pleat.a)->n_pieces;
}
