/* pool_test.c - the driver's own pool: its allocations, counts and kept memory. */
/* labels: unit fault */
#include "tests/support/suite.h"
#include "vmm/async/async_pool.h"

#include <check.h>
#include <string.h>

#include "tests/support/vmm/vmm_sim.h"

#define MIB ((size_t)1 << 20)
#define UNIT (32 * MIB)

static vmm_sim sim;
static pl_device *dev;
static pl_async_pool *pool;
static cu_stream handles[2];
static pl_stream *streams[2];

static void open_pool(const char *conf, uint64_t limit_bytes)
{
    vmm_sim_open(&sim, conf);
    dev = vmm_sim_device(&sim, NULL);
    for (size_t i = 0; i < 2; i++) {
        handles[i] = vmm_sim_stream(dev, false);
        ck_assert_int_eq(pl_stream_get(dev, handles[i], &streams[i]), PLEAT_OK);
    }
    pleat_status st = pl_async_pool_create(dev, limit_bytes, UINT64_MAX, &pool);
    ck_assert_msg(st == PLEAT_OK, "%d: %s", (int)st, pl_driver_last_error()->detail);
}

static void open_plain(void)
{
    open_pool("capacity:1G,depth:1000000", 0);
}

/* `n_left`: blocks that the pool could not give back. */
static void close_with(size_t n_left)
{
    ck_assert_uint_eq(pl_async_pool_destroy(pool), n_left);
    ck_assert_uint_eq(pl_device_counted(dev).pool_bytes, 0);
    for (size_t i = 0; i < 2; i++) {
        vmm_sim_destroy_stream(dev, handles[i]);
    }
    ck_assert_uint_eq(pl_device_close(dev), 0);
    vmm_sim_close(&sim);
}

static void close_plain(void)
{
    close_with(0);
}

static pleat_devptr get(size_t bytes, unsigned stream)
{
    pleat_devptr ptr = 0;
    ck_assert_int_eq(pl_async_pool_alloc(pool, bytes, streams[stream], &ptr), PLEAT_OK);
    return ptr;
}

static pleat_status refused(size_t bytes)
{
    pleat_devptr ptr = 77;
    pleat_status st = pl_async_pool_alloc(pool, bytes, streams[0], &ptr);
    ck_assert_int_ne(st, PLEAT_OK);
    ck_assert_uint_eq(ptr, 77);
    return st;
}

static void put(pleat_devptr ptr, size_t bytes, unsigned stream)
{
    ck_assert_int_eq(pl_async_pool_free(pool, ptr, bytes, streams[stream]), PLEAT_OK);
}

static uint64_t trim(uint64_t keep_bytes)
{
    uint64_t released = 0;
    ck_assert_int_eq(pl_async_pool_trim(pool, keep_bytes, &released), PLEAT_OK);
    return released;
}

START_TEST(what_is_held_is_counted_as_it_is_observed)
{
    pleat_devptr first = get(MIB, 0);
    pleat_devptr second = get(2 * MIB, 0);
    pl_device_counts counts = pl_device_counted(dev);
    ck_assert_uint_eq(counts.pool_bytes, UNIT);
    ck_assert_uint_eq(counts.ops_alloc, 1);
    ck_assert_uint_eq(counts.bytes_created, UNIT);
    ck_assert_uint_eq(counts.bytes_mapped, UNIT);
    ck_assert_uint_eq(pl_device_resident_bytes(dev), UNIT);
    ck_assert_uint_eq(pl_async_pool_held_bytes(pool), UNIT);
    pleat_devptr third = get(UNIT, 0);
    ck_assert_uint_eq(pl_device_counted(dev).ops_alloc, 2);
    put(first, MIB, 0);
    put(second, 2 * MIB, 0);
    put(third, UNIT, 0);
    ck_assert_uint_eq(pl_device_counted(dev).ops_free, 0);
    ck_assert_int_eq(pl_stream_synchronize(streams[0]), PLEAT_OK);
    ck_assert_uint_eq(trim(UNIT), UNIT);
    ck_assert_uint_eq(trim(0), UNIT);
    counts = pl_device_counted(dev);
    ck_assert_uint_eq(counts.pool_bytes, 0);
    ck_assert_uint_eq(counts.ops_free, 2);
    ck_assert_uint_eq(counts.bytes_created, 2 * UNIT);
}
END_TEST

START_TEST(unseen_frees_are_not_trimmed)
{
    vmm_sim_submit(&sim, dev, handles[0]);
    put(get(MIB, 0), MIB, 0);
    ck_assert_uint_eq(trim(0), 0);
    ck_assert_int_eq(pl_stream_synchronize(streams[0]), PLEAT_OK);
    ck_assert_uint_eq(trim(0), UNIT);
}
END_TEST

START_TEST(trim_goes_below_what_may_stay_where_segments_are_large)
{
    pleat_devptr ptrs[2] = { get(2 * UNIT, 0), get(2 * UNIT, 0) };
    put(ptrs[0], 2 * UNIT, 0);
    put(ptrs[1], 2 * UNIT, 0);
    ck_assert_int_eq(pl_stream_synchronize(streams[0]), PLEAT_OK);
    ck_assert_uint_eq(trim(3 * UNIT), 2 * UNIT);
    ck_assert_uint_eq(trim(MIB), 2 * UNIT);
}
END_TEST

START_TEST(a_capturing_stream_is_refused_and_its_capture_goes_on)
{
    cu_graph graph = NULL;
    pl_driver *drv = sim.drv;
    pleat_devptr ptr = get(MIB, 0);
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    ck_assert_int_eq(pl_cu_stream_begin_capture(drv, handles[0], CU_CAPTURE_MODE_GLOBAL),
                     CU_SUCCESS);
    ck_assert_int_eq(refused(MIB), PLEAT_ECAPTURE);
    ck_assert_int_eq(pl_async_pool_free(pool, ptr, MIB, streams[0]), PLEAT_ECAPTURE);
    put(get(MIB, 1), MIB, 1);
    ck_assert_uint_eq(trim(0), 0);
    ck_assert_int_eq(pl_cu_stream_end_capture(drv, handles[0], &graph), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_graph_destroy(drv, graph), CU_SUCCESS);
    pl_device_leave(dev);
    put(ptr, MIB, 0);
}
END_TEST

START_TEST(a_stream_out_of_reach_is_refused)
{
    cu_stream gone = vmm_sim_stream(dev, false);
    pl_stream *stream = NULL;
    pleat_devptr ptr = 0;
    ck_assert_int_eq(pl_stream_get(dev, gone, &stream), PLEAT_OK);
    ck_assert_int_eq(pl_async_pool_alloc(pool, MIB, stream, &ptr), PLEAT_OK);
    vmm_sim_destroy_stream(dev, gone);
    ck_assert_int_eq(pl_async_pool_free(pool, ptr, MIB, stream), PLEAT_ESTREAM);
    pleat_devptr other = 0;
    ck_assert_int_eq(pl_async_pool_alloc(pool, MIB, stream, &other), PLEAT_ESTREAM);
    ck_assert_int_eq(pl_async_pool_free_now(pool, ptr, MIB), PLEAT_OK);
    ck_assert_int_eq(pl_async_pool_free_now(pool, ptr, MIB), PLEAT_EDRIVER);
}
END_TEST

START_TEST(refusals_leave_everything_as_it_was)
{
    ck_assert_int_eq(refused(0), PLEAT_EINVAL);
    ck_assert_int_eq(refused(2048 * MIB), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(refused(SIZE_MAX), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(pl_async_pool_held_bytes(pool), 0);
    pl_stream *own = NULL;
    pl_stream *again = NULL;
    ck_assert_int_eq(pl_async_pool_own_stream(pool, &own), PLEAT_OK);
    ck_assert_int_eq(pl_async_pool_own_stream(pool, &again), PLEAT_OK);
    ck_assert_ptr_eq(own, again);
}
END_TEST

START_TEST(blocks_that_live_are_told_at_the_end)
{
    pl_async_pool *other = NULL;
    pleat_devptr ptr = 0;
    ck_assert_int_eq(pl_async_pool_create(dev, 0, UINT64_MAX, &other), PLEAT_OK);
    ck_assert_int_eq(pl_async_pool_alloc(other, MIB, streams[0], &ptr), PLEAT_OK);
    ck_assert_uint_eq(pl_async_pool_destroy(other), 1);
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    ck_assert_int_eq(pl_cu_mem_free(sim.drv, ptr), CU_SUCCESS);
    pl_device_leave(dev);
}
END_TEST

/* ---- limits ---------------------------------------------------------------------------------- */

START_TEST(a_limit_is_the_driver_s_maximum)
{
    open_pool("capacity:1G", UNIT + 4 * MIB);
    pleat_devptr first = get(31 * MIB, 0);
    pleat_devptr second = get(4 * MIB, 0);
    ck_assert_uint_eq(pl_async_pool_held_bytes(pool), UNIT + 4 * MIB);
    ck_assert_int_eq(refused(2 * MIB), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(pl_device_counted(dev).host_syncs, 0);
    put(first, 31 * MIB, 0);
    put(second, 4 * MIB, 0);
    close_plain();
}
END_TEST

START_TEST(a_limit_that_was_set_later_is_kept_without_the_driver)
{
    open_plain();
    pleat_devptr first = get(MIB, 0);
    ck_assert_int_eq(pl_async_pool_set_limit(pool, UNIT - 1), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(pl_async_pool_set_limit(pool, UNIT + 4 * MIB), PLEAT_OK);
    ck_assert_int_eq(refused(UNIT + 4 * MIB), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(pl_device_counted(dev).ops_alloc, 1);
    ck_assert_int_eq(refused(UNIT), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(pl_async_pool_held_bytes(pool), UNIT);
    ck_assert_uint_eq(vmm_sim_counted(&sim).physical_bytes, UNIT);
    ck_assert_uint_eq(vmm_sim_counted(&sim).allocations, 1);
    pleat_devptr second = get(31 * MIB, 0);
    ck_assert_int_eq(pl_async_pool_set_limit(pool, 0), PLEAT_OK);
    pleat_devptr third = get(UNIT, 0);
    put(first, MIB, 0);
    put(second, 31 * MIB, 0);
    put(third, UNIT, 0);
    close_plain();
}
END_TEST

START_TEST(an_allocation_above_the_limit_is_undone_though_the_driver_refuses_once)
{
    open_plain();
    pleat_devptr first = get(MIB, 0);
    ck_assert_int_eq(pl_async_pool_set_limit(pool, UNIT + 4 * MIB), PLEAT_OK);
    sim.fail_at("cuMemFreeAsync", 0, CU_UNKNOWN);
    ck_assert_int_eq(refused(UNIT), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(vmm_sim_counted(&sim).physical_bytes, UNIT);
    ck_assert_uint_eq(vmm_sim_counted(&sim).allocations, 1);
    put(first, MIB, 0);
    close_plain();
}
END_TEST

START_TEST(what_a_lifted_maximum_held_goes_back)
{
    open_pool("capacity:1G,depth:1000000", 3 * UNIT);
    put(get(2 * UNIT, 0), 2 * UNIT, 0);
    ck_assert_int_eq(pl_stream_synchronize(streams[0]), PLEAT_OK);
    pleat_devptr late = get(UNIT, 1);
    ck_assert_int_eq(pl_async_pool_set_limit(pool, 0), PLEAT_OK);
    pleat_devptr next = get(2 * UNIT, 0);
    ck_assert_uint_le(pl_async_pool_held_bytes(pool), 4 * UNIT);
    put(late, UNIT, 1);
    ck_assert_int_eq(pl_stream_synchronize(streams[1]), PLEAT_OK);
    ck_assert_uint_eq(vmm_sim_counted(&sim).physical_bytes, 2 * UNIT);
    put(next, 2 * UNIT, 0);
    close_plain();
}
END_TEST

START_TEST(a_maximum_of_the_driver_can_be_lifted)
{
    open_pool("capacity:1G", UNIT);
    pleat_devptr first = get(MIB, 0);
    ck_assert_int_eq(refused(UNIT), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(pl_async_pool_set_limit(pool, 3 * UNIT), PLEAT_OK);
    pleat_devptr second = get(2 * UNIT, 0);
    ck_assert_uint_eq(pl_async_pool_held_bytes(pool), 3 * UNIT);
    ck_assert_int_eq(refused(MIB), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(pl_async_pool_set_limit(pool, 0), PLEAT_OK);
    ck_assert_uint_eq(vmm_sim_counted(&sim).pools, 2);
    put(get(MIB, 0), MIB, 0);
    put(first, MIB, 0);
    put(second, 2 * UNIT, 0);
    ck_assert_int_eq(pl_stream_synchronize(streams[0]), PLEAT_OK);
    ck_assert_uint_eq(trim(0), 4 * UNIT);
    close_plain();
}
END_TEST

/* ---- other drivers --------------------------------------------------------------------------- */

START_TEST(a_device_without_pools_says_so)
{
    pl_async_pool *none = NULL;
    vmm_sim_open(&sim, "profile:no_vmm");
    dev = vmm_sim_device(&sim, NULL);
    ck_assert_int_eq(pl_async_pool_create(dev, 0, 0, &none), PLEAT_ENOVMM);
    ck_assert_ptr_null(none);
    ck_assert_ptr_nonnull(strstr(pl_driver_last_error()->detail, "no memory pools"));
    vmm_sim_close_device(dev);
    vmm_sim_close(&sim);
}
END_TEST

START_TEST(an_old_driver_s_pool_is_told_by_its_live_blocks)
{
    open_pool("profile:old_driver,capacity:1G", 2 * UNIT);
    pleat_devptr first = get(MIB, 0);
    ck_assert_uint_eq(pl_async_pool_held_bytes(pool), MIB);
    ck_assert_int_eq(refused(2 * UNIT), PLEAT_ENOMEM_DEVICE);
    pleat_devptr second = get(UNIT, 0);
    ck_assert_uint_eq(pl_async_pool_held_bytes(pool), MIB + UNIT);
    put(first, MIB, 0);
    put(second, UNIT, 0);
    ck_assert_uint_eq(pl_async_pool_held_bytes(pool), 0);
    (void)trim(0);
    close_plain();
}
END_TEST

/* ---- faults ---------------------------------------------------------------------------------- */

static bool live_once(void)
{
    pl_async_pool *other = NULL;
    pl_stream *own = NULL;
    pleat_devptr ptr = 0;
    uint64_t released = 0;
    bool is_good = false;
    if (pl_async_pool_create(dev, UNIT, UINT64_MAX, &other) != PLEAT_OK) {
        return false;
    }
    if (pl_async_pool_alloc(other, MIB, streams[0], &ptr) == PLEAT_OK) {
        is_good = pl_async_pool_own_stream(other, &own) == PLEAT_OK;
        is_good = pl_async_pool_set_limit(other, 0) == PLEAT_OK && is_good;
        if (pl_async_pool_free(other, ptr, MIB, streams[0]) != PLEAT_OK) {
            is_good = false;
            ck_assert_int_eq(pl_async_pool_free(other, ptr, MIB, streams[0]), PLEAT_OK);
        }
        is_good = pl_async_pool_trim(other, 0, &released) == PLEAT_OK && is_good;
    }
    ck_assert_uint_eq(pl_async_pool_destroy(other), 0);
    return is_good;
}

/* A refused call that gives something back is repeated once, so a single fault may go unnoticed. */
START_TEST(failing_each_driver_call_in_turn_leaves_nothing_behind)
{
    bool is_over = false;
    uint64_t k = 0;
    while (!is_over) {
        uint64_t n_before = sim.n_faults();
        sim.fail_at(NULL, k++, CU_UNKNOWN);
        bool is_good = live_once();
        is_over = sim.n_faults() == n_before;
        ck_assert(is_good || !is_over);
        sim.fail_never();
        sim.finish();
        ck_assert_uint_eq(vmm_sim_counted(&sim).pools, 1);
        ck_assert_uint_eq(vmm_sim_counted(&sim).allocations, 0);
        ck_assert_uint_eq(vmm_sim_counted(&sim).streams, 2);
        ck_assert_uint_eq(vmm_sim_counted(&sim).pool_bytes, 0);
        ck_assert_uint_lt(k, 60);
    }
    ck_assert_uint_gt(k, 12);
}
END_TEST

START_TEST(failing_host_memory_leaves_nothing_behind)
{
    for (uint64_t k = 0; k < 4; k++) {
        pl_meta_fail_at(k);
        (void)live_once();
        pl_meta_fail_never();
        sim.finish();
        ck_assert_uint_eq(vmm_sim_counted(&sim).pools, 1);
        ck_assert_uint_eq(vmm_sim_counted(&sim).streams, 2);
    }
}
END_TEST

SUITE(vmm_pool)
{
    TCase *plain = tcase_create("pool");
    tcase_add_checked_fixture(plain, open_plain, close_plain);
    tcase_add_test(plain, what_is_held_is_counted_as_it_is_observed);
    tcase_add_test(plain, unseen_frees_are_not_trimmed);
    tcase_add_test(plain, trim_goes_below_what_may_stay_where_segments_are_large);
    tcase_add_test(plain, a_capturing_stream_is_refused_and_its_capture_goes_on);
    tcase_add_test(plain, a_stream_out_of_reach_is_refused);
    tcase_add_test(plain, refusals_leave_everything_as_it_was);
    tcase_add_test(plain, blocks_that_live_are_told_at_the_end);
    tcase_add_test(plain, failing_each_driver_call_in_turn_leaves_nothing_behind);
    tcase_add_test(plain, failing_host_memory_leaves_nothing_behind);
    suite_add_tcase(suite, plain);
    TCase *others = tcase_create("limits and drivers");
    tcase_add_test(others, a_limit_is_the_driver_s_maximum);
    tcase_add_test(others, a_limit_that_was_set_later_is_kept_without_the_driver);
    tcase_add_test(others, an_allocation_above_the_limit_is_undone_though_the_driver_refuses_once);
    tcase_add_test(others, what_a_lifted_maximum_held_goes_back);
    tcase_add_test(others, a_maximum_of_the_driver_can_be_lifted);
    tcase_add_test(others, a_device_without_pools_says_so);
    tcase_add_test(others, an_old_driver_s_pool_is_told_by_its_live_blocks);
    suite_add_tcase(suite, others);
}
