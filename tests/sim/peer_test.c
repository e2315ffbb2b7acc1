/* peer_test.c - access of devices to other devices' memory. */
#include "tests/support/sim/sim_world.h"
#include "tests/support/suite.h"

static cu_access_desc allow(int device, int flags)
{
    return (cu_access_desc){ .location = { .type = CU_LOCATION_DEVICE, .id = device },
                             .flags = flags };
}

static int can_access(int device, int peer)
{
    int can = 7;
    ck_ok(cuDeviceCanAccessPeer(&can, device, peer));
    return can;
}

START_TEST(devices_reach_each_other_as_configured)
{
    static const struct {
        const char *conf;
        int neighbours; /* devices 0 and 1 can access each other */
        int strangers;  /* can devices 1 and 2? */
    } cases[] = {
        { "devices:4", 1, 1 },
        { "devices:4,peers:all", 1, 1 },
        { "devices:4,peers:pairs", 1, 0 },
        { "devices:4,peers:none", 0, 0 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        world_begin(cases[i].conf);
        ck_assert_int_eq(can_access(0, 1), cases[i].neighbours);
        ck_assert_int_eq(can_access(1, 0), cases[i].neighbours);
        ck_assert_int_eq(can_access(3, 2), cases[i].neighbours);
        ck_assert_int_eq(can_access(1, 2), cases[i].strangers);
        ck_assert_int_eq(can_access(2, 1), cases[i].strangers);
        ck_assert_int_eq(can_access(2, 2), 0); /* no device is its own peer */
        world_end();
    }
    ck_assert_int_eq(pleat_sim_reset("peers:some"), -1);
}
END_TEST

START_TEST(devices_that_do_not_exist_are_refused)
{
    int can;
    world_begin("devices:2");
    ck_assert_int_eq(cuDeviceCanAccessPeer(&can, 0, 2), CU_INVALID_DEVICE);
    ck_assert_int_eq(cuDeviceCanAccessPeer(&can, -1, 0), CU_INVALID_DEVICE);
    ck_assert_int_eq(cuDeviceCanAccessPeer(NULL, 0, 1), CU_INVALID_VALUE);
    world_end();
}
END_TEST

START_TEST(a_device_that_cannot_reach_is_refused_access_and_nothing_changes)
{
    unsigned long long flags;
    world_begin("devices:4,peers:pairs");
    cu_devptr at = world_map(2);
    cu_access_desc all[3] = { allow(0, CU_ACCESS_READ), allow(1, CU_ACCESS_READ_WRITE),
                              allow(2, CU_ACCESS_READ) };
    ck_assert_int_eq(cuMemSetAccess(at, 2 * GRANULE, all, 3), CU_INVALID_DEVICE);
    ck_ok(cuMemGetAccess(&flags, &all[1].location, at));
    ck_assert_uint_eq(flags, CU_ACCESS_NONE);
    ck_ok(cuMemGetAccess(&flags, &all[0].location, at));
    ck_assert_uint_eq(flags, CU_ACCESS_READ_WRITE);
    all[2].flags = CU_ACCESS_NONE;
    ck_ok(cuMemSetAccess(at, 2 * GRANULE, all, 3));
    ck_ok(cuMemGetAccess(&flags, &all[1].location, at + GRANULE));
    ck_assert_uint_eq(flags, CU_ACCESS_READ_WRITE);
    world_unmap(at, 2);
    world_end();
}
END_TEST

/* Work of device 1 that reads memory of device 0. */
static void read_from_device_1(cu_devptr at)
{
    cu_context context;
    ck_ok(cuDevicePrimaryCtxRetain(&context, 1));
    ck_ok(cuCtxPushCurrent_v2(context));
    world_read(NULL, at, 512);
    pleat_sim_finish();
    ck_ok(cuCtxPopCurrent_v2(&context));
    ck_ok(cuDevicePrimaryCtxRelease_v2(1));
}

static void kernel_of_device_1(cu_devptr at)
{
    const pleat_sim_access access = { at, 512, false };
    cu_context context;
    ck_ok(cuDevicePrimaryCtxRetain(&context, 1));
    ck_ok(cuCtxPushCurrent_v2(context));
    pleat_sim_op_begin(7, &access, 1);
    ck_ok(pleat_sim_op_kernel(NULL));
    (void)pleat_sim_op_end();
    ck_ok(cuCtxPopCurrent_v2(&context));
}

/* A copy from device to device has kernels on both. */
START_TEST(an_operation_s_kernel_touches_what_its_device_can_reach)
{
    cu_access_desc peer = allow(1, CU_ACCESS_READ);
    world_begin("devices:2,depth:1048576");
    cu_devptr at = world_map(1);
    cu_stream stream = world_stream();
    world_write(stream, at, 512);
    kernel_of_device_1(at);
    ck_assert_uint_eq(world_hazards(), 0);
    ck_ok(cuMemSetAccess(at, GRANULE, &peer, 1));
    kernel_of_device_1(at); /* unordered with the write */
    ck_assert_uint_eq(world_hazards(), 1);
    pleat_sim_finish();
    ck_ok(cuDevicePrimaryCtxRelease_v2(1));
    ck_ok(cuDevicePrimaryCtxRelease_v2(1));
    ck_ok(cuStreamDestroy_v2(stream));
    world_unmap(at, 1);
    world_end_with(PLEAT_SIM_RACE, 1);
}
END_TEST

static cu_mempool make_pool(void)
{
    cu_mempool pool;
    cu_mempool_props props = { .type = CU_ALLOCATION_PINNED,
                               .location = { .type = CU_LOCATION_DEVICE, .id = 0 } };
    uint64_t all = UINT64_MAX;
    ck_ok(cuMemPoolCreate(&pool, &props));
    ck_ok(cuMemPoolSetAttribute(pool, CU_POOL_RELEASE_THRESHOLD, &all));
    return pool;
}

static void free_and_destroy(cu_devptr at, cu_mempool pool)
{
    ck_ok(cuMemFreeAsync(at, NULL));
    pleat_sim_finish();
    ck_ok(cuMemPoolDestroy(pool));
}

START_TEST(a_pools_memory_is_its_own_devices_only)
{
    cu_devptr at;
    world_begin("devices:2");
    cu_mempool pool = make_pool();
    ck_ok(cuMemAllocFromPoolAsync(&at, 512, pool, NULL));
    ck_ok(cuStreamSynchronize(NULL));
    read_from_device_1(at);
    free_and_destroy(at, pool);
    world_end_with(PLEAT_SIM_UNMAPPED_ACCESS, 1);
}
END_TEST

START_TEST(access_to_a_pool_is_access_to_all_its_memory_present_and_future)
{
    cu_devptr at[2];
    cu_access_desc peer = allow(1, CU_ACCESS_READ_WRITE);
    world_begin("devices:2");
    cu_mempool pool = make_pool();
    ck_ok(cuMemAllocFromPoolAsync(&at[0], 512, pool, NULL));
    ck_ok(cuMemPoolSetAccess(pool, &peer, 1));
    ck_ok(cuMemAllocFromPoolAsync(&at[1], 100 * GRANULE, pool, NULL));
    ck_ok(cuStreamSynchronize(NULL));
    read_from_device_1(at[0]);
    read_from_device_1(at[1]);
    ck_ok(cuMemFreeAsync(at[1], NULL));
    free_and_destroy(at[0], pool);
    world_end();
}
END_TEST

START_TEST(access_to_a_pool_is_refused_where_it_makes_no_sense)
{
    world_begin("devices:4,peers:pairs");
    cu_mempool pool = make_pool();
    cu_access_desc desc = allow(2, CU_ACCESS_READ_WRITE);
    ck_assert_int_eq(cuMemPoolSetAccess(pool, &desc, 1), CU_INVALID_DEVICE);
    desc = allow(9, CU_ACCESS_READ_WRITE);
    ck_assert_int_eq(cuMemPoolSetAccess(pool, &desc, 1), CU_INVALID_DEVICE);
    desc = allow(0, CU_ACCESS_NONE);
    ck_assert_int_eq(cuMemPoolSetAccess(pool, &desc, 1), CU_INVALID_VALUE);
    desc = allow(0, CU_ACCESS_READ_WRITE);
    ck_assert_int_eq(cuMemPoolSetAccess(pool, &desc, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemPoolSetAccess(pool, NULL, 1), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemPoolSetAccess(NULL, &desc, 1), CU_INVALID_VALUE);
    ck_ok(cuMemPoolSetAccess(pool, &desc, 1));
    ck_ok(cuMemPoolDestroy(pool));
    world_end();
}
END_TEST

SUITE(sim_peer)
{
    TCase *peers = tcase_create("peers");
    tcase_add_test(peers, devices_reach_each_other_as_configured);
    tcase_add_test(peers, devices_that_do_not_exist_are_refused);
    tcase_add_test(peers, a_device_that_cannot_reach_is_refused_access_and_nothing_changes);
    suite_add_tcase(suite, peers);
    TCase *pools = tcase_create("pools");
    tcase_add_test(pools, an_operation_s_kernel_touches_what_its_device_can_reach);
    tcase_add_test(pools, a_pools_memory_is_its_own_devices_only);
    tcase_add_test(pools, access_to_a_pool_is_access_to_all_its_memory_present_and_future);
    tcase_add_test(pools, access_to_a_pool_is_refused_where_it_makes_no_sense);
    suite_add_tcase(suite, pools);
}
