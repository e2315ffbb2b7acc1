/* pool_test.c - the model of stream-ordered pools: life, growth, reuse. */
/* labels: unit fault */
#include "tests/support/sim/sim_pools.h"
#include "tests/support/suite.h"

/* ---- life ------------------------------------------------------------------------------------ */

START_TEST(a_pool_is_counted_and_holds_nothing_at_first)
{
    ck_assert_uint_eq(world_counts().pools, 1);
    ck_assert_uint_eq(world_counts().physical_bytes, 0);
    ck_assert_uint_eq(pools_reserved(), 0);
    cu_mempool other = pools_make(0);
    ck_assert_uint_eq(world_counts().pools, 2);
    ck_ok(cuMemPoolDestroy(other));
    ck_assert_uint_eq(world_counts().pools, 1);
}
END_TEST

START_TEST(creation_refuses_what_no_device_can)
{
    cu_mempool made;
    cu_mempool_props props = pools_props(0);
    ck_assert_int_eq(cuMemPoolCreate(NULL, &props), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemPoolCreate(&made, NULL), CU_INVALID_VALUE);
    props.type = 0;
    ck_assert_int_eq(cuMemPoolCreate(&made, &props), CU_INVALID_VALUE);
    props = pools_props(0);
    props.location.id = 7;
    ck_assert_int_eq(cuMemPoolCreate(&made, &props), CU_INVALID_DEVICE);
    props = pools_props(0);
    props.reserved[53] = 1;
    ck_assert_int_eq(cuMemPoolCreate(&made, &props), CU_INVALID_VALUE);
    props = pools_props(0);
    props.usage = 4;
    ck_assert_int_eq(cuMemPoolCreate(&made, &props), CU_INVALID_VALUE);
    props = pools_props(0);
    props.handle_types = CU_HANDLE_FABRIC;
    ck_assert_int_eq(cuMemPoolCreate(&made, &props), CU_INVALID_VALUE);
    ck_assert_uint_eq(world_counts().pools, 1);
}
END_TEST

START_TEST(a_pool_for_decompression_serves_like_any_other)
{
    cu_mempool made;
    cu_devptr at;
    cu_mempool_props props = pools_props(0);
    props.usage = CU_POOL_USAGE_HW_DECOMPRESS;
    ck_ok(cuMemPoolCreate(&made, &props));
    ck_ok(cuMemAllocFromPoolAsync(&at, GRANULE, made, NULL));
    ck_ok(cuMemFreeAsync(at, NULL));
    ck_ok(cuMemPoolDestroy(made));
}
END_TEST

START_TEST(a_destroyed_pool_is_a_pool_no_more)
{
    cu_devptr at;
    uint64_t value;
    cu_mempool gone = pools_make(0);
    ck_ok(cuMemPoolDestroy(gone));
    cu_mempool later = pools_make(0);
    ck_assert_ptr_ne(gone, later);
    ck_assert_int_eq(cuMemPoolDestroy(gone), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemPoolTrimTo(gone, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemPoolGetAttribute(gone, CU_POOL_USED_HIGH, &value), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemAllocFromPoolAsync(&at, 512, gone, a), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemAllocFromPoolAsync(&at, 512, NULL, a), CU_INVALID_VALUE);
    ck_ok(cuMemPoolDestroy(later));
}
END_TEST

START_TEST(the_default_pool_serves_cumemallocasync_and_stays)
{
    cu_devptr at;
    cu_mempool base;
    uint64_t value = 0;
    ck_ok(cuDeviceGetDefaultMemPool(&base, 0));
    ck_assert_int_eq(cuDeviceGetDefaultMemPool(&base, 1), CU_INVALID_DEVICE);
    ck_ok(cuMemAllocAsync(&at, 1000, a));
    ck_ok(cuMemPoolGetAttribute(base, CU_POOL_USED_CURRENT, &value));
    ck_assert_uint_eq(value, 1000);
    ck_ok(cuMemPoolGetAttribute(base, CU_POOL_RELEASE_THRESHOLD, &value));
    ck_assert_uint_eq(value, 0);
    ck_assert_int_eq(cuMemPoolDestroy(base), CU_INVALID_VALUE);
    ck_assert_uint_eq(world_counts().pools, 1);
    pools_put(at, a);
}
END_TEST

START_TEST(memory_of_a_destroyed_pool_goes_with_its_last_block)
{
    cu_devptr at[2];
    cu_mempool gone = pools_make(0);
    ck_ok(cuMemAllocFromPoolAsync(&at[0], POOLS_MIB, gone, a));
    ck_ok(cuMemAllocFromPoolAsync(&at[1], POOLS_MIB, gone, a));
    pools_occupy(a);
    pools_put(at[0], a);
    ck_ok(cuMemPoolDestroy(gone));
    ck_assert_uint_eq(world_counts().pools, 1);
    ck_ok(cuStreamSynchronize(a));
    ck_assert_uint_eq(world_counts().pool_bytes, POOLS_UNIT);
    world_write(a, at[1], POOLS_MIB);
    pools_put(at[1], a);
    ck_assert_uint_eq(world_counts().pool_bytes, POOLS_UNIT);
    ck_ok(cuStreamSynchronize(a));
    ck_assert_uint_eq(world_counts().pool_bytes, 0);
    ck_assert_uint_eq(world_counts().allocations, 0);
}
END_TEST

START_TEST(pools_outlive_the_context)
{
    cu_devptr at = pools_get(POOLS_MIB, NULL);
    cu_context context;
    ck_ok(cuStreamDestroy_v2(a));
    ck_ok(cuStreamDestroy_v2(b));
    ck_ok(cuCtxPopCurrent_v2(&context));
    ck_ok(cuDevicePrimaryCtxRelease_v2(0));
    ck_assert_uint_eq(world_counts().lost_objects, 0);
    ck_assert_uint_eq(world_counts().allocations, 1);
    ck_ok(cuDevicePrimaryCtxRetain(&context, 0));
    ck_ok(cuCtxPushCurrent_v2(context));
    a = world_stream();
    b = world_stream();
    pools_put(at, a);
}
END_TEST

START_TEST(a_device_without_vmm_has_no_pools)
{
    int value = 1;
    cu_devptr at;
    cu_mempool made;
    cu_mempool_props props = pools_props(0);
    pools_close();
    world_end();
    world_begin("profile:no_vmm");
    ck_ok(cuDeviceGetAttribute(&value, CU_ATTR_MEMPOOLS_SUPPORTED, 0));
    ck_assert_int_eq(value, 0);
    ck_assert_int_eq(cuMemPoolCreate(&made, &props), CU_NOT_SUPPORTED);
    ck_assert_int_eq(cuMemAllocAsync(&at, 512, NULL), CU_NOT_SUPPORTED);
    ck_assert_int_eq(cuDeviceGetDefaultMemPool(&made, 0), CU_NOT_SUPPORTED);
    world_end();
    pools_default();
    ck_ok(cuDeviceGetAttribute(&value, CU_ATTR_MEMPOOLS_SUPPORTED, 0));
    ck_assert_int_eq(value, 1);
}
END_TEST

START_TEST(pools_of_an_old_driver_have_no_maximum_and_do_not_tell_what_they_hold)
{
    cu_mempool made;
    uint64_t value = 0;
    cu_mempool_props props = pools_props(POOLS_UNIT);
    pools_close();
    world_end();
    world_begin("profile:old_driver");
    ck_assert_int_eq(cuMemPoolCreate(&made, &props), CU_INVALID_VALUE);
    props.max_bytes = 0;
    ck_ok(cuMemPoolCreate(&made, &props));
    ck_ok(cuMemPoolGetAttribute(made, CU_POOL_RELEASE_THRESHOLD, &value));
    ck_assert_int_eq(cuMemPoolGetAttribute(made, CU_POOL_RESERVED_CURRENT, &value),
                     CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemPoolGetAttribute(made, CU_POOL_USED_HIGH, &value), CU_INVALID_VALUE);
    ck_ok(cuMemPoolDestroy(made));
    world_end();
    pools_default();
}
END_TEST

/* ---- growth ---------------------------------------------------------------------------------- */

START_TEST(a_pool_grows_by_units_and_blocks_are_aligned)
{
    cu_devptr first = pools_get(1, a);
    ck_assert_uint_eq(first % 512, 0);
    ck_assert_uint_eq(pools_reserved(), POOLS_UNIT);
    cu_devptr second = pools_get(513, a);
    cu_devptr third = pools_get(POOLS_MIB, a);
    ck_assert_uint_eq(second, first + 512);
    ck_assert_uint_eq(third, second + 1024);
    ck_assert_uint_eq(pools_reserved(), POOLS_UNIT);
    cu_devptr large = pools_get(POOLS_UNIT + 1, a);
    ck_assert_uint_eq(pools_reserved(), 3 * POOLS_UNIT);
    ck_assert_uint_eq(world_counts().physical_bytes, 3 * POOLS_UNIT);
    ck_assert_uint_eq(world_counts().pool_bytes, 3 * POOLS_UNIT);
    ck_assert_uint_eq(world_counts().allocations, 4);
    ck_assert_uint_eq(pools_get_bytes(CU_POOL_USED_CURRENT), 1 + 513 + POOLS_MIB + POOLS_UNIT + 1);
    pools_put(first, a);
    pools_put(second, a);
    pools_put(third, a);
    pools_put(large, a);
    ck_assert_uint_eq(pools_get_bytes(CU_POOL_USED_CURRENT), 0);
    ck_assert_uint_eq(pools_get_bytes(CU_POOL_USED_HIGH), 1 + 513 + POOLS_MIB + POOLS_UNIT + 1);
}
END_TEST

START_TEST(a_pool_grows_by_granules_where_a_unit_has_no_room)
{
    cu_devptr at[4];
    at[0] = pools_get(POOLS_UNIT, a);
    at[1] = pools_get(POOLS_UNIT, a);
    at[2] = pools_get(3 * POOLS_MIB, a);
    ck_assert_uint_eq(pools_reserved(), 2 * POOLS_UNIT + 4 * POOLS_MIB);
    at[3] = pools_get(POOLS_MIB + 512 * POOLS_KIB, a);
    ck_assert_uint_eq(pools_reserved(), 70 * POOLS_MIB);
    ck_assert_int_eq(pools_try_get(POOLS_MIB + 1, a), CU_OUT_OF_MEMORY);
    ck_assert_uint_eq(world_counts().peak_physical_bytes, 70 * POOLS_MIB);
    for (size_t i = 0; i < 4; i++) {
        pools_put(at[i], a);
    }
}
END_TEST

START_TEST(memory_of_all_kinds_shares_the_capacity)
{
    cu_devptr linear;
    cu_mem_handle handle = world_create(1);
    ck_ok(cuMemAlloc_v2(&linear, 67 * POOLS_MIB));
    ck_assert_int_eq(pools_try_get(512, a), CU_OUT_OF_MEMORY);
    ck_ok(cuMemRelease(handle));
    cu_devptr at = pools_get(512, a);
    ck_assert_int_eq(cuMemAlloc_v2(&linear, POOLS_MIB + 1), CU_OUT_OF_MEMORY);
    pools_put(at, a);
    ck_ok(cuMemFree_v2(linear));
}
END_TEST

START_TEST(the_maximum_bounds_what_is_reserved)
{
    cu_devptr at[2];
    cu_devptr none;
    cu_mempool bounded = pools_make(POOLS_UNIT + 5 * POOLS_MIB);
    ck_ok(cuMemAllocFromPoolAsync(&at[0], POOLS_MIB, bounded, a));
    ck_assert_int_eq(cuMemAllocFromPoolAsync(&none, POOLS_UNIT, bounded, a), CU_OUT_OF_MEMORY);
    ck_ok(cuMemAllocFromPoolAsync(&at[1], 31 * POOLS_MIB, bounded, a));
    ck_assert_uint_eq(world_counts().pool_bytes, POOLS_UNIT);
    ck_ok(cuMemAllocFromPoolAsync(&none, 4 * POOLS_MIB, bounded, a));
    ck_assert_uint_eq(world_counts().pool_bytes, POOLS_UNIT + 4 * POOLS_MIB);
    pools_put(none, a);
    ck_assert_int_eq(cuMemAllocFromPoolAsync(&none, 5 * POOLS_MIB, bounded, a), CU_OUT_OF_MEMORY);
    pools_put(at[0], a);
    pools_put(at[1], a);
    ck_ok(cuMemPoolDestroy(bounded));
}
END_TEST

START_TEST(free_pages_are_not_remapped_from_one_segment_to_another)
{
    cu_devptr first = pools_get(POOLS_UNIT, a);
    cu_devptr second = pools_get(POOLS_UNIT, a);
    pools_put(first, a);
    pools_put(second, a);
    ck_assert_uint_eq(pools_get_bytes(CU_POOL_USED_CURRENT), 0);
    ck_assert_int_eq(pools_try_get(POOLS_UNIT + 512, a), CU_OUT_OF_MEMORY);
    ck_ok(cuStreamSynchronize(a));
    ck_ok(cuMemPoolTrimTo(pool, 0));
    cu_devptr both = pools_get(POOLS_UNIT + 512, a);
    pools_put(both, a);
}
END_TEST

START_TEST(what_is_above_the_threshold_goes_at_any_synchronisation)
{
    cu_event event = world_event();
    for (int how = 0; how < 3; how++) {
        cu_devptr at[3];
        pools_set_bytes(CU_POOL_RELEASE_THRESHOLD, POOLS_UNIT + POOLS_MIB);
        for (size_t i = 0; i < 3; i++) {
            at[i] = pools_get(POOLS_UNIT, a);
        }
        for (size_t i = 0; i < 3; i++) {
            pools_put(at[i], a);
        }
        ck_assert_uint_eq(pools_reserved(), 3 * POOLS_UNIT);
        ck_ok(cuEventRecord(event, a));
        if (how == 0) {
            ck_ok(cuStreamSynchronize(b));
        } else if (how == 1) {
            ck_ok(cuEventSynchronize(event));
        } else {
            pleat_sim_finish();
        }
        ck_assert_uint_eq(pools_reserved(), 2 * POOLS_UNIT);
        pools_set_bytes(CU_POOL_RELEASE_THRESHOLD, 0);
        ck_ok(cuStreamSynchronize(a));
        ck_assert_uint_eq(pools_reserved(), 0);
    }
    ck_ok(cuEventDestroy_v2(event));
}
END_TEST

START_TEST(trim_keeps_what_it_is_told_and_what_nobody_has_seen_free)
{
    cu_devptr at[3];
    for (size_t i = 0; i < 3; i++) {
        at[i] = pools_get(POOLS_UNIT, a);
    }
    pools_occupy(a);
    pools_put(at[0], a);
    pools_put(at[1], a);
    ck_ok(cuMemPoolTrimTo(pool, 0));
    ck_assert_uint_eq(pools_reserved(), 3 * POOLS_UNIT);
    ck_ok(cuStreamSynchronize(a));
    ck_assert_uint_eq(pools_reserved(), 3 * POOLS_UNIT);
    ck_ok(cuMemPoolTrimTo(pool, 3 * POOLS_UNIT));
    ck_ok(cuMemPoolTrimTo(pool, 2 * POOLS_UNIT + 1));
    ck_assert_uint_eq(pools_reserved(), 3 * POOLS_UNIT);
    ck_ok(cuMemPoolTrimTo(pool, 2 * POOLS_UNIT));
    ck_assert_uint_eq(pools_reserved(), 2 * POOLS_UNIT);
    ck_ok(cuMemPoolTrimTo(pool, 0));
    ck_assert_uint_eq(pools_reserved(), POOLS_UNIT);
    pools_put(at[2], a);
}
END_TEST

START_TEST(marks_can_be_reset_and_nothing_else_that_is_counted)
{
    uint64_t value = 1;
    int flag = 7;
    cu_devptr at = pools_get(3 * POOLS_UNIT, a);
    pools_put(at, a);
    ck_ok(cuStreamSynchronize(a));
    ck_ok(cuMemPoolTrimTo(pool, 0));
    ck_assert_uint_eq(pools_get_bytes(CU_POOL_RESERVED_HIGH), 3 * POOLS_UNIT);
    ck_assert_int_eq(cuMemPoolSetAttribute(pool, CU_POOL_RESERVED_HIGH, &value), CU_INVALID_VALUE);
    pools_set_bytes(CU_POOL_RESERVED_HIGH, 0);
    pools_set_bytes(CU_POOL_USED_HIGH, 0);
    ck_assert_uint_eq(pools_get_bytes(CU_POOL_RESERVED_HIGH), 0);
    ck_assert_uint_eq(pools_get_bytes(CU_POOL_USED_HIGH), 0);
    ck_assert_int_eq(cuMemPoolSetAttribute(pool, CU_POOL_USED_CURRENT, &value), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemPoolSetAttribute(pool, 9, &value), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemPoolSetAttribute(pool, 4, NULL), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemPoolGetAttribute(pool, 0, &value), CU_INVALID_VALUE);
    for (int i = CU_POOL_FOLLOW_EVENTS; i <= CU_POOL_INTERNAL_DEPENDENCIES; i++) {
        ck_ok(cuMemPoolGetAttribute(pool, i, &flag));
        ck_assert_int_eq(flag, 1);
        pools_set_flag(i, 0);
        ck_ok(cuMemPoolGetAttribute(pool, i, &flag));
        ck_assert_int_eq(flag, 0);
    }
}
END_TEST

/* ---- reuse ----------------------------------------------------------------------------------- */

START_TEST(a_stream_gets_its_own_freed_memory_at_once)
{
    pools_occupy(a);
    cu_devptr first = pools_get(20 * POOLS_MIB, a);
    world_write(a, first, 20 * POOLS_MIB);
    pools_put(first, a);
    cu_devptr second = pools_get(20 * POOLS_MIB, a);
    ck_assert_uint_eq(second, first);
    world_write(a, second, 20 * POOLS_MIB);
    pools_put(second, a);
}
END_TEST

START_TEST(another_stream_gets_it_when_the_free_is_over)
{
    pools_occupy(a);
    cu_devptr first = pools_get(POOLS_UNIT, a);
    pools_put(first, a);
    cu_devptr second = pools_get(POOLS_UNIT, b);
    ck_assert_uint_ne(second, first);
    pools_put(second, b);
    pleat_sim_advance(0, 1000001);
    ck_assert_uint_eq(world_unfinished(), 0);
    cu_devptr third = pools_get(POOLS_UNIT, b);
    cu_devptr fourth = pools_get(POOLS_UNIT, b);
    ck_assert_uint_eq(pools_reserved(), 2 * POOLS_UNIT);
    pools_put(third, b);
    pools_put(fourth, b);
}
END_TEST

START_TEST(without_opportunism_a_free_must_be_seen_by_a_synchronisation)
{
    pools_set_flag(CU_POOL_OPPORTUNISTIC, 0);
    cu_devptr first = pools_get(POOLS_UNIT, a);
    pools_put(first, a);
    ck_assert_uint_eq(world_unfinished(), 0);
    cu_devptr second = pools_get(POOLS_UNIT, b);
    ck_assert_uint_ne(second, first);
    ck_ok(cuStreamSynchronize(a));
    cu_devptr third = pools_get(POOLS_UNIT, b);
    ck_assert_uint_eq(third, first);
    pools_put(second, b);
    pools_put(third, b);
}
END_TEST

START_TEST(an_event_makes_freed_memory_usable)
{
    pools_occupy(a);
    cu_devptr first = pools_get(POOLS_UNIT, a);
    world_write(a, first, POOLS_UNIT);
    pools_put(first, a);
    world_order(a, b);
    cu_devptr second = pools_get(POOLS_UNIT, b);
    ck_assert_uint_eq(second, first);
    world_write(b, second, POOLS_UNIT);
    pools_put(second, b);
}
END_TEST

START_TEST(an_event_before_the_free_does_not)
{
    pools_occupy(a);
    cu_devptr first = pools_get(POOLS_UNIT, a);
    world_order(a, b);
    pools_put(first, a);
    cu_devptr second = pools_get(POOLS_UNIT, b);
    ck_assert_uint_ne(second, first);
    pools_put(second, b);
}
END_TEST

START_TEST(events_are_not_followed_where_that_is_off)
{
    pools_set_flag(CU_POOL_FOLLOW_EVENTS, 0);
    pools_occupy(a);
    cu_devptr first = pools_get(POOLS_UNIT, a);
    pools_put(first, a);
    world_order(a, b);
    cu_devptr second = pools_get(POOLS_UNIT, b);
    ck_assert_uint_ne(second, first);
    pools_put(second, b);
}
END_TEST

START_TEST(the_legacy_stream_is_an_order_too)
{
    cu_stream blocking;
    ck_ok(cuStreamCreate(&blocking, CU_STREAM_DEFAULT_FLAG));
    pools_occupy(blocking);
    cu_devptr first = pools_get(POOLS_UNIT, blocking);
    pools_put(first, blocking);
    cu_devptr second = pools_get(POOLS_UNIT, NULL);
    ck_assert_uint_eq(second, first);
    world_write(NULL, second, POOLS_UNIT);
    pools_put(second, NULL);
    cu_devptr third = pools_get(POOLS_UNIT, blocking);
    ck_assert_uint_eq(third, first);
    pools_put(third, blocking);
    pleat_sim_finish();
    ck_ok(cuStreamDestroy_v2(blocking));
}
END_TEST

START_TEST(a_dependency_is_added_only_where_the_pool_cannot_grow)
{
    pools_occupy(a);
    cu_devptr first = pools_get(POOLS_UNIT, a);
    world_write(a, first, POOLS_UNIT);
    pools_put(first, a);
    cu_devptr second = pools_get(POOLS_UNIT, b);
    ck_assert_uint_ne(second, first);
    ck_ok(cuStreamQuery(b));
    cu_devptr third = pools_get(POOLS_UNIT, b);
    ck_assert_uint_eq(third, first);
    ck_assert_int_eq(cuStreamQuery(b), CU_NOT_READY);
    world_write(b, third, POOLS_UNIT);
    pools_put(third, b);
    pools_put(second, b);
    ck_ok(cuStreamSynchronize(b));
    ck_assert_uint_eq(world_unfinished(), 0);
}
END_TEST

START_TEST(without_added_dependencies_there_is_no_memory)
{
    pools_set_flag(CU_POOL_INTERNAL_DEPENDENCIES, 0);
    pools_occupy(a);
    cu_devptr first = pools_get(2 * POOLS_UNIT, a);
    pools_put(first, a);
    ck_assert_int_eq(pools_try_get(POOLS_UNIT, b), CU_OUT_OF_MEMORY);
    ck_ok(cuStreamQuery(b));
    cu_devptr second = pools_get(POOLS_UNIT, a);
    pools_put(second, a);
}
END_TEST

START_TEST(the_added_dependency_covers_all_that_the_free_waited_for)
{
    cu_stream c = world_stream();
    pools_occupy(a);
    cu_devptr first = pools_get(2 * POOLS_UNIT, a);
    world_write(a, first, POOLS_UNIT);
    world_order(a, c);
    pools_put(first, c);
    cu_devptr second = pools_get(2 * POOLS_UNIT, b);
    ck_assert_uint_eq(second, first);
    world_write(b, second, POOLS_UNIT);
    pools_put(second, b);
    pleat_sim_finish();
    ck_ok(cuStreamDestroy_v2(c));
}
END_TEST

START_TEST(neighbours_join_for_whoever_may_use_them_all)
{
    pools_occupy(a);
    pools_occupy(b);
    cu_devptr low = pools_get(10 * POOLS_MIB, a);
    cu_devptr middle = pools_get(10 * POOLS_MIB, a);
    cu_devptr high = pools_get(12 * POOLS_MIB, b);
    ck_assert_uint_eq(middle, low + 10 * POOLS_MIB);
    ck_assert_uint_eq(high, middle + 10 * POOLS_MIB);
    pools_put(low, a);
    pools_put(middle, a);
    pools_put(high, b);
    cu_devptr of_a = pools_get(20 * POOLS_MIB, a);
    ck_assert_uint_eq(of_a, low);
    pools_put(of_a, a);
    world_order(b, a);
    cu_devptr all = pools_get(POOLS_UNIT, a);
    ck_assert_uint_eq(all, low);
    ck_assert_uint_eq(pools_reserved(), POOLS_UNIT);
    pools_put(all, a);
}
END_TEST

START_TEST(of_all_places_the_smallest_is_taken_then_the_lowest)
{
    cu_devptr at[7];
    static const uint64_t sizes[7] = { 4, 1, 3, 1, 3, 1, 19 };
    for (size_t i = 0; i < 7; i++) {
        at[i] = pools_get(sizes[i] * POOLS_MIB, a);
    }
    pools_put(at[0], a);
    pools_put(at[4], a);
    pools_put(at[2], a);
    ck_ok(cuStreamSynchronize(a));
    cu_devptr first = pools_get(2 * POOLS_MIB, b);
    cu_devptr second = pools_get(2 * POOLS_MIB, b);
    cu_devptr third = pools_get(2 * POOLS_MIB, b);
    ck_assert_uint_eq(first, at[2]);
    ck_assert_uint_eq(second, at[4]);
    ck_assert_uint_eq(third, at[0]);
    pools_put(first, b);
    pools_put(second, b);
    pools_put(third, b);
    pools_put(at[1], a);
    pools_put(at[3], a);
    pools_put(at[5], a);
    pools_put(at[6], a);
}
END_TEST

/* ---- faults and costs ------------------------------------------------------------------------ */

/* The life of a pool. False after the first failed call, with everything undone. */
static bool live_once(void)
{
    cu_mempool made;
    cu_devptr at;
    uint64_t threshold = UINT64_MAX;
    cu_mempool_props props = pools_props(0);
    if (cuMemPoolCreate(&made, &props) != CU_SUCCESS) {
        return false;
    }
    bool is_good = cuMemPoolSetAttribute(made, CU_POOL_RELEASE_THRESHOLD, &threshold) == CU_SUCCESS;
    if (is_good && cuMemAllocFromPoolAsync(&at, POOLS_MIB, made, a) == CU_SUCCESS) {
        if (cuMemFreeAsync(at, a) != CU_SUCCESS) {
            is_good = false;
            ck_ok(cuMemFreeAsync(at, a));
        }
    } else {
        is_good = false;
    }
    is_good = is_good && cuMemPoolTrimTo(made, 0) == CU_SUCCESS;
    if (cuMemPoolDestroy(made) != CU_SUCCESS) {
        is_good = false;
        ck_ok(cuMemPoolDestroy(made));
    }
    return is_good;
}

START_TEST(failing_each_call_in_turn_leaves_nothing_behind)
{
    bool is_over = false;
    for (uint64_t k = 0; !is_over; k++) {
        uint64_t n_before = pleat_sim_n_faults();
        pleat_sim_fail_at(NULL, k, CU_UNKNOWN);
        bool is_good = live_once();
        is_over = pleat_sim_n_faults() == n_before;
        ck_assert(is_good == is_over);
        pleat_sim_fail_never();
        pleat_sim_finish();
        ck_assert_uint_eq(world_counts().pools, 1);
        ck_assert_uint_eq(world_counts().pool_bytes, 0);
        ck_assert_uint_eq(world_counts().allocations, 0);
        ck_assert_uint_lt(k, 20);
    }
}
END_TEST

START_TEST(growing_costs_what_the_driver_s_own_calls_cost)
{
    double before = pleat_sim_cost_us();
    cu_devptr at = pools_get(POOLS_MIB, a);
    double growth = pleat_sim_cost_us() - before;
    ck_assert_double_gt(growth, 250);
    before = pleat_sim_cost_us();
    cu_devptr next = pools_get(POOLS_MIB, a);
    ck_assert_double_eq(pleat_sim_cost_us() - before, 0);
    pools_put(at, a);
    pools_put(next, a);
    ck_ok(cuStreamSynchronize(a));
    before = pleat_sim_cost_us();
    ck_ok(cuMemPoolTrimTo(pool, 0));
    ck_assert_double_gt(pleat_sim_cost_us() - before, 40);
}
END_TEST

static void add_life(Suite *suite)
{
    TCase *life = tcase_create("life");
    tcase_add_checked_fixture(life, pools_default, pools_end);
    tcase_add_test(life, a_pool_is_counted_and_holds_nothing_at_first);
    tcase_add_test(life, creation_refuses_what_no_device_can);
    tcase_add_test(life, a_pool_for_decompression_serves_like_any_other);
    tcase_add_test(life, a_destroyed_pool_is_a_pool_no_more);
    tcase_add_test(life, the_default_pool_serves_cumemallocasync_and_stays);
    tcase_add_test(life, memory_of_a_destroyed_pool_goes_with_its_last_block);
    tcase_add_test(life, pools_outlive_the_context);
    tcase_add_test(life, a_device_without_vmm_has_no_pools);
    tcase_add_test(life, pools_of_an_old_driver_have_no_maximum_and_do_not_tell_what_they_hold);
    tcase_add_test(life, failing_each_call_in_turn_leaves_nothing_behind);
    tcase_add_test(life, growing_costs_what_the_driver_s_own_calls_cost);
    suite_add_tcase(suite, life);
}

static void add_growth(Suite *suite)
{
    TCase *small = tcase_create("small device");
    tcase_add_checked_fixture(small, pools_small, pools_end);
    tcase_add_test(small, a_pool_grows_by_granules_where_a_unit_has_no_room);
    tcase_add_test(small, memory_of_all_kinds_shares_the_capacity);
    tcase_add_test(small, free_pages_are_not_remapped_from_one_segment_to_another);
    tcase_add_test(small, a_dependency_is_added_only_where_the_pool_cannot_grow);
    tcase_add_test(small, without_added_dependencies_there_is_no_memory);
    tcase_add_test(small, the_added_dependency_covers_all_that_the_free_waited_for);
    suite_add_tcase(suite, small);
    TCase *growth = tcase_create("growth");
    tcase_add_checked_fixture(growth, pools_default, pools_end);
    tcase_add_test(growth, a_pool_grows_by_units_and_blocks_are_aligned);
    tcase_add_test(growth, the_maximum_bounds_what_is_reserved);
    tcase_add_test(growth, what_is_above_the_threshold_goes_at_any_synchronisation);
    tcase_add_test(growth, trim_keeps_what_it_is_told_and_what_nobody_has_seen_free);
    tcase_add_test(growth, marks_can_be_reset_and_nothing_else_that_is_counted);
    suite_add_tcase(suite, growth);
}

static void add_reuse(Suite *suite)
{
    TCase *reuse = tcase_create("reuse");
    tcase_add_checked_fixture(reuse, pools_default, pools_end);
    tcase_add_test(reuse, a_stream_gets_its_own_freed_memory_at_once);
    tcase_add_test(reuse, another_stream_gets_it_when_the_free_is_over);
    tcase_add_test(reuse, without_opportunism_a_free_must_be_seen_by_a_synchronisation);
    tcase_add_test(reuse, an_event_makes_freed_memory_usable);
    tcase_add_test(reuse, an_event_before_the_free_does_not);
    tcase_add_test(reuse, events_are_not_followed_where_that_is_off);
    tcase_add_test(reuse, the_legacy_stream_is_an_order_too);
    tcase_add_test(reuse, neighbours_join_for_whoever_may_use_them_all);
    tcase_add_test(reuse, of_all_places_the_smallest_is_taken_then_the_lowest);
    suite_add_tcase(suite, reuse);
}

SUITE(sim_pool)
{
    add_life(suite);
    add_growth(suite);
    add_reuse(suite);
}
