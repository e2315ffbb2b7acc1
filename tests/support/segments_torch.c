/* segments_torch.c - see segments_torch.h. */
#include "tests/support/segments_torch.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/driver.h"

torch_fixture torch;

/* Object and function pointers have one representation here, as dlsym needs. */
static void load(const char *name, void *function)
{
    void *found = pl_driver_symbol(torch.drv, name);
    ck_assert_ptr_nonnull(found);
    memcpy(function, &found, sizeof(found));
}

static void load_simulator(void)
{
    load("pleat_sim_work", &torch.sim.work);
    load("pleat_sim_fill", &torch.sim.fill);
    load("pleat_sim_verify", &torch.sim.verify);
    load("pleat_sim_finish", &torch.sim.finish);
    load("pleat_sim_fail_at", &torch.sim.fail_at);
    load("pleat_sim_fail_from", &torch.sim.fail_from);
    load("pleat_sim_fail_never", &torch.sim.fail_never);
    load("pleat_sim_n_faults", &torch.sim.n_faults);
    load("pleat_sim_count", &torch.sim.count);
    load("pleat_sim_n_calls", &torch.sim.n_calls);
}

static void make_streams(void)
{
    ck_assert_int_eq(pl_device_enter(torch.dev), PLEAT_OK);
    for (unsigned i = 0; i < TORCH_N_STREAMS; i++) {
        if (i > 0) {
            cu_stream handle = NULL;
            ck_assert_int_eq(pl_cu_stream_create(torch.drv, &handle, CU_STREAM_NON_BLOCKING_FLAG),
                             CU_SUCCESS);
            torch.handles[i] = handle;
        }
        ck_assert_int_eq(pl_stream_get(torch.dev, torch.handles[i], &torch.streams[i]), PLEAT_OK);
    }
    pl_device_leave(torch.dev);
}

void torch_open(const char *sim_conf, const pl_allocator_options *options)
{
    torch_open_as(&pl_torch_native_ops, sim_conf, options);
}

void torch_open_as(const pl_allocator_ops *ops, const char *sim_conf,
                   const pl_allocator_options *options)
{
    pl_allocator_options defaults;
    pl_allocator_options_init(&defaults);
    pl_device_options device_options = { .chunk_granules = 0 };
    memset(&torch, 0, sizeof(torch));
    ck_assert_int_eq(pl_driver_open(PL_DRIVER_SIM, sim_conf, &torch.drv), PLEAT_OK);
    load_simulator();
    ck_assert_int_eq(pl_device_open(torch.drv, 0, &device_options, &torch.dev), PLEAT_OK);
    make_streams();
    options = options ? options : &defaults;
    ck_assert_int_eq(ops->create(torch.dev, options, &torch.a), PLEAT_OK);
}

static void destroy_streams(void)
{
    ck_assert_int_eq(pl_device_enter(torch.dev), PLEAT_OK);
    for (unsigned i = 1; i < TORCH_N_STREAMS; i++) {
        ck_assert_int_eq(pl_cu_stream_destroy(torch.drv, torch.handles[i]), CU_SUCCESS);
    }
    pl_device_leave(torch.dev);
}

/* Returns how many driver objects the layers say they could not give back. */
static size_t close_layers(void)
{
    torch.sim.fail_never();
    pl_host_fail_never();
    size_t n_leaked = 0;
    if (torch.a) {
        size_t n_live = 0;
        torch_assert_sound();
        ck_assert_int_eq(torch.a->ops->destroy(torch.a, true, &n_live, &n_leaked), PLEAT_OK);
    }
    destroy_streams();
    return n_leaked + pl_device_close(torch.dev);
}

static pleat_sim_counts assert_no_memory_left(void)
{
    pleat_sim_counts counts;
    ck_assert_int_eq(torch.sim.count(-1, &counts), 0);
    ck_assert_uint_eq(counts.allocations, 0);
    ck_assert_uint_eq(counts.reservations, 0);
    ck_assert_uint_eq(counts.handles, 0);
    ck_assert_uint_eq(counts.mappings, 0);
    ck_assert_uint_eq(counts.physical_bytes, 0);
    ck_assert_uint_eq(counts.streams, 0);
    ck_assert_uint_eq(counts.contexts, 0);
    ck_assert_uint_eq(counts.hazards, 0);
    return counts;
}

void torch_close(void)
{
    ck_assert_uint_eq(close_layers(), 0);
    ck_assert_uint_eq(assert_no_memory_left().events, 0);
    pl_driver_close(torch.drv);
}

void torch_close_after_failed_undo(void)
{
    size_t n_lost = close_layers();
    ck_assert_uint_le(assert_no_memory_left().events, n_lost);
    pl_driver_close(torch.drv);
}

void torch_assert_sound(void)
{
    ck_assert_int_eq(torch.a->ops->check(torch.a), 0);
}

pleat_devptr torch_get(size_t bytes, unsigned stream)
{
    pleat_devptr ptr = 0;
    pleat_status st = torch.a->ops->alloc(torch.a, bytes, torch.streams[stream], &ptr);
    const pl_driver_error *error = pl_driver_last_error();
    ck_assert_msg(st == PLEAT_OK, "%zu bytes: status %d, last %s = %d, %s", bytes, (int)st,
                  pl_entry_symbol(error->entry), error->result, error->detail);
    ck_assert_uint_ne(ptr, 0);
    ck_assert_uint_eq(ptr % 512, 0);
    torch_assert_sound();
    return ptr;
}

void torch_put(pleat_devptr ptr)
{
    ck_assert_int_eq(torch.a->ops->free(torch.a, ptr, NULL), PLEAT_OK);
    torch_assert_sound();
}

pleat_block_info torch_info(pleat_devptr ptr)
{
    pleat_block_info info;
    ck_assert_int_eq(torch.a->ops->query(torch.a, ptr, &info), PLEAT_OK);
    return info;
}

pleat_stats torch_stats(void)
{
    pleat_stats stats;
    torch.a->ops->stats(torch.a, &stats);
    return stats;
}

void torch_work(unsigned stream, pleat_devptr ptr, size_t bytes)
{
    pleat_sim_access access = { .ptr = ptr, .bytes = bytes, .is_write = true };
    ck_assert_int_eq(pl_device_enter(torch.dev), PLEAT_OK);
    ck_assert_int_eq(torch.sim.work(torch.handles[stream], &access, 1), 0);
    pl_device_leave(torch.dev);
}
