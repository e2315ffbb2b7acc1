/* pool_hazard_test.c - refusals of pools, and hazardous uses of their memory. */
#include "tests/support/sim/sim_pools.h"
#include "tests/support/suite.h"

/* For tests with hazards: assert them, and open a clean world for the fixture. */
static void end_with(pleat_sim_hazard_kind kind, size_t n)
{
    pools_close();
    world_end_with(kind, n);
    pools_default();
}

/* ---- refusals -------------------------------------------------------------------------------- */

START_TEST(allocation_refuses_what_makes_no_sense)
{
    cu_devptr at;
    ck_assert_int_eq(cuMemAllocFromPoolAsync(&at, 0, pool, a), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemAllocFromPoolAsync(NULL, 512, pool, a), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemAllocFromPoolAsync(&at, 512, pool, (cu_stream)0x1234), CU_INVALID_HANDLE);
    ck_assert_int_eq(cuMemAllocFromPoolAsync(&at, SIZE_MAX, pool, a), CU_OUT_OF_MEMORY);
    ck_assert_int_eq(cuMemAllocFromPoolAsync(&at, SIZE_MAX - 511, pool, a), CU_OUT_OF_MEMORY);
    ck_assert_uint_eq(world_counts().allocations, 0);
}
END_TEST

START_TEST(free_takes_a_block_once_and_nothing_else)
{
    cu_devptr at = pools_get(POOLS_MIB, a);
    ck_assert_int_eq(cuMemFreeAsync(at + 512, a), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemFreeAsync(at + 2 * POOLS_MIB, a), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemFreeAsync(0, a), CU_INVALID_VALUE);
    pools_put(at, a);
    ck_assert_int_eq(cuMemFreeAsync(at, a), CU_INVALID_VALUE);
    ck_ok(cuStreamSynchronize(a));
    ck_assert_int_eq(cuMemFreeAsync(at, a), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemFree_v2(at), CU_INVALID_VALUE);
}
END_TEST

START_TEST(a_block_is_no_reservation_handle_or_mapping)
{
    cu_devptr base;
    size_t bytes;
    cu_mem_handle handle;
    cu_devptr at = pools_get(3000001, a);
    pleat_sim_counts counts = world_counts();
    ck_assert_uint_eq(counts.reservations + counts.handles + counts.mappings, 0);
    ck_assert_int_eq(cuMemUnmap(at, GRANULE), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)at), CU_INVALID_VALUE);
    ck_ok(cuMemGetAddressRange_v2(&base, &bytes, at + 3000000));
    ck_assert_uint_eq(base, at);
    ck_assert_uint_eq(bytes, 3000001);
    ck_assert_int_eq(cuMemGetAddressRange_v2(&base, &bytes, at + 3000001), CU_NOT_FOUND);
    pools_put(at, a);
    ck_assert_int_eq(cuMemGetAddressRange_v2(&base, &bytes, at), CU_NOT_FOUND);
}
END_TEST

START_TEST(cumemfree_frees_a_block_for_everybody_at_once)
{
    cu_devptr at = pools_get(POOLS_UNIT, a);
    world_write(a, at, POOLS_UNIT);
    ck_ok(cuStreamSynchronize(a));
    ck_ok(cuMemFree_v2(at));
    ck_assert_uint_eq(world_counts().allocations, 0);
    pools_occupy(a);
    cu_devptr again = pools_get(POOLS_UNIT, b);
    ck_assert_uint_eq(again, at);
    pools_put(again, b);
}
END_TEST

START_TEST(a_capture_can_neither_allocate_nor_free)
{
    cu_graph graph;
    cu_devptr none;
    cu_devptr at = pools_get(POOLS_MIB, a);
    ck_ok(cuStreamBeginCapture_v2(a, CU_CAPTURE_MODE_RELAXED));
    ck_assert_int_eq(cuMemAllocFromPoolAsync(&none, POOLS_MIB, pool, a), CU_CAPTURE_UNSUPPORTED);
    ck_assert_int_eq(cuStreamEndCapture(a, &graph), CU_CAPTURE_INVALIDATED);
    ck_ok(cuStreamBeginCapture_v2(a, CU_CAPTURE_MODE_RELAXED));
    ck_assert_int_eq(cuMemFreeAsync(at, a), CU_CAPTURE_UNSUPPORTED);
    ck_assert_int_eq(cuStreamEndCapture(a, &graph), CU_CAPTURE_INVALIDATED);
    ck_ok(cuStreamBeginCapture_v2(a, CU_CAPTURE_MODE_GLOBAL));
    pools_put(pools_get(POOLS_MIB, b), b);
    ck_ok(cuMemPoolTrimTo(pool, 0));
    ck_ok(cuStreamEndCapture(a, &graph));
    ck_ok(cuGraphDestroy(graph));
    pools_put(at, a);
}
END_TEST

/* ---- hazards --------------------------------------------------------------------------------- */

START_TEST(work_that_is_not_ordered_after_the_allocation_is_a_race)
{
    pools_occupy(a);
    cu_devptr at = pools_get(POOLS_MIB, a);
    world_write(b, at, POOLS_MIB);
    ck_assert_uint_eq(world_hazards(), 1);
    world_order(b, a);
    pools_put(at, a);
    end_with(PLEAT_SIM_RACE, 1);
}
END_TEST

START_TEST(an_event_before_the_allocation_orders_nothing_after_it)
{
    pools_occupy(a);
    cu_event event = world_event();
    ck_ok(cuEventRecord(event, a));
    cu_devptr at = pools_get(POOLS_MIB, a);
    ck_ok(cuStreamWaitEvent(b, event, 0));
    world_read(b, at, POOLS_MIB);
    ck_assert_uint_eq(world_hazards(), 1);
    ck_ok(cuEventDestroy_v2(event));
    world_order(b, a);
    pools_put(at, a);
    end_with(PLEAT_SIM_RACE, 1);
}
END_TEST

START_TEST(ordered_work_of_other_streams_is_fine)
{
    pools_occupy(a);
    cu_devptr at = pools_get(POOLS_MIB, a);
    world_order(a, b);
    world_write(b, at, POOLS_MIB);
    world_order(b, a);
    world_write(a, at, POOLS_MIB);
    pools_put(at, a);
    ck_assert_uint_eq(world_hazards(), 0);
}
END_TEST

START_TEST(a_free_that_is_not_ordered_after_the_work_is_a_hazard)
{
    pools_occupy(a);
    pools_occupy(b);
    cu_devptr at = pools_get(POOLS_MIB, a);
    world_order(a, b);
    world_write(b, at, POOLS_MIB);
    pools_put(at, a);
    ck_assert_uint_eq(world_hazards(), 1);
    end_with(PLEAT_SIM_UNMAP_IN_USE, 1);
}
END_TEST

START_TEST(work_after_the_free_is_a_hazard_whatever_the_order)
{
    cu_devptr at = pools_get(POOLS_MIB, a);
    pools_put(at, a);
    world_write(a, at, POOLS_MIB);
    ck_assert_uint_eq(world_hazards(), 1);
    ck_ok(cuStreamSynchronize(a));
    world_read(b, at, 1);
    ck_assert_uint_eq(world_hazards(), 2);
    ck_assert_int_eq(cuMemsetD8Async(at, 0, POOLS_MIB, a), CU_INVALID_VALUE);
    end_with(PLEAT_SIM_UNMAPPED_ACCESS, 3);
}
END_TEST

START_TEST(work_beyond_a_block_s_last_byte_is_a_hazard)
{
    cu_devptr at = pools_get(1000, a);
    cu_devptr neighbour = pools_get(1000, a);
    ck_assert_uint_eq(neighbour, at + 1024);
    world_write(a, at + 999, 1);
    world_write(a, at, 0);
    ck_assert_uint_eq(world_hazards(), 0);
    world_write(a, at + 999, 2);
    world_write(a, at, 2000);
    ck_assert_uint_eq(world_hazards(), 2);
    pools_put(at, a);
    pools_put(neighbour, a);
    end_with(PLEAT_SIM_UNMAPPED_ACCESS, 2);
}
END_TEST

START_TEST(contents_stay_until_the_stream_has_passed_the_free)
{
    pools_close();
    world_end();
    pools_begin("depth:3,capacity:70M,backing:memory");
    for (uint64_t i = 0; i < 40; i++) {
        cu_stream stream = i % 3 == 0 ? b : a;
        cu_devptr at = pools_get(POOLS_UNIT / (1 + i % 4), stream);
        ck_ok(pleat_sim_fill(stream, at, POOLS_UNIT / 8, i));
        ck_ok(pleat_sim_verify(stream, at, POOLS_UNIT / 8, i));
        pools_put(at, stream);
    }
    pleat_sim_finish();
    ck_assert_uint_eq(world_hazards(), 0);
}
END_TEST

static void add_tests(Suite *suite)
{
    TCase *refusals = tcase_create("refusals");
    tcase_add_checked_fixture(refusals, pools_default, pools_end);
    tcase_add_test(refusals, allocation_refuses_what_makes_no_sense);
    tcase_add_test(refusals, free_takes_a_block_once_and_nothing_else);
    tcase_add_test(refusals, a_block_is_no_reservation_handle_or_mapping);
    tcase_add_test(refusals, cumemfree_frees_a_block_for_everybody_at_once);
    tcase_add_test(refusals, a_capture_can_neither_allocate_nor_free);
    suite_add_tcase(suite, refusals);
    TCase *hazards = tcase_create("hazards");
    tcase_add_checked_fixture(hazards, pools_default, pools_end);
    tcase_add_test(hazards, work_that_is_not_ordered_after_the_allocation_is_a_race);
    tcase_add_test(hazards, an_event_before_the_allocation_orders_nothing_after_it);
    tcase_add_test(hazards, ordered_work_of_other_streams_is_fine);
    tcase_add_test(hazards, a_free_that_is_not_ordered_after_the_work_is_a_hazard);
    tcase_add_test(hazards, work_after_the_free_is_a_hazard_whatever_the_order);
    tcase_add_test(hazards, work_beyond_a_block_s_last_byte_is_a_hazard);
    tcase_add_test(hazards, contents_stay_until_the_stream_has_passed_the_free);
    suite_add_tcase(suite, hazards);
}

SUITE(sim_pool_hazard)
{
    add_tests(suite);
}
