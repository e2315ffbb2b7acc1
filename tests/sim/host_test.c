/* host_test.c - pinned host memory of the simulator: owners and refusals. */
/* labels: unit */
#include <string.h>

#include "tests/support/sim/sim_world.h"
#include "tests/support/suite.h"

static const char memory[] = "backing:memory,host:8M,capacity:4M,depth:1048576";

static cu_mem_prop host_prop(int node)
{
    cu_mem_prop prop = world_prop(0);
    prop.location = (cu_mem_location){ .type = CU_LOCATION_HOST_NUMA, .id = node };
    return prop;
}

static cu_access_desc host_access(void)
{
    cu_mem_location location = { .type = CU_LOCATION_HOST_NUMA, .id = 0 };
    return (cu_access_desc){ location, CU_ACCESS_READ_WRITE };
}

static void with_memory(void)
{
    world_begin(memory);
}

static void without_memory(void)
{
    world_begin("host:8M");
}

START_TEST(memory_on_the_host_is_charged_to_the_host)
{
    cu_mem_prop prop = host_prop(0);
    cu_mem_handle handles[2];
    ck_ok(cuMemCreate(&handles[0], 3 * GRANULE, &prop, 0));
    ck_assert_uint_eq(world_counts().host_bytes, 3 * GRANULE);
    ck_assert_uint_eq(world_counts().physical_bytes, 0);
    ck_assert_int_eq(cuMemCreate(&handles[1], 2 * GRANULE, &prop, 0), CU_OUT_OF_MEMORY);
    ck_ok(cuMemCreate(&handles[1], GRANULE, &prop, 0));
    ck_ok(cuMemRelease(handles[0]));
    ck_ok(cuMemRelease(handles[1]));
    ck_assert_uint_eq(world_counts().host_bytes, 0);
}
END_TEST

START_TEST(the_host_and_devices_use_what_is_mapped)
{
    cu_mem_prop prop = host_prop(0);
    cu_mem_handle handle;
    cu_devptr at = world_reserve(1);
    cu_access_desc desc[] = { { { CU_LOCATION_DEVICE, 0 }, CU_ACCESS_READ_WRITE }, host_access() };
    int type = 0;
    ck_ok(cuMemCreate(&handle, GRANULE, &prop, 0));
    ck_ok(cuMemMap(at, GRANULE, 0, handle, 0));
    ck_ok(cuMemSetAccess(at, GRANULE, desc, 2));
    memset((void *)(uintptr_t)at, 3, GRANULE);
    cu_stream stream = world_stream();
    world_read(stream, at, GRANULE);
    ck_ok(cuPointerGetAttribute(&type, CU_POINTER_MEMORY_TYPE, at));
    ck_assert_int_eq(type, CU_MEMORY_OF_HOST);
    ck_ok(cuStreamSynchronize(stream));
    ck_ok(cuStreamDestroy_v2(stream));
    ck_ok(cuMemRelease(handle));
    world_unmap(at, 1);
}
END_TEST

START_TEST(the_host_has_no_access_to_a_device)
{
    cu_devptr at = world_map(1);
    cu_access_desc desc = host_access();
    ck_assert_int_eq(cuMemSetAccess(at, GRANULE, &desc, 1), CU_INVALID_VALUE);
    world_unmap(at, 1);
}
END_TEST

START_TEST(what_a_host_cannot_be_is_refused)
{
    cu_mem_handle handle;
    cu_mem_prop prop = host_prop(1);
    ck_assert_int_eq(cuMemCreate(&handle, GRANULE, &prop, 0), CU_INVALID_VALUE);
    prop = host_prop(0);
    prop.handle_types = CU_HANDLE_POSIX_FD;
    ck_assert_int_eq(cuMemCreate(&handle, GRANULE, &prop, 0), CU_NOT_SUPPORTED);
    prop = host_prop(0);
    ck_assert_int_eq(cuMemCreate(&handle, GRANULE + 1, &prop, 0), CU_INVALID_VALUE);
}
END_TEST

/* By loop index: with backing:memory, and without. */
START_TEST(whole_pieces_are_charged_and_freed_once)
{
    void *a = NULL;
    void *b = NULL;
    world_begin(_i == 0 ? memory : "host:8M");
    ck_assert_int_eq(cuMemHostAlloc(&a, 0, 0), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemHostAlloc(&a, 1, 64), CU_INVALID_VALUE);
    ck_ok(cuMemHostAlloc(&a, 5000001, CU_HOST_PORTABLE | CU_HOST_MAPPED));
    memset(a, 1, 5000001);
    ck_assert_uint_eq(world_counts().host_bytes, 5000001);
    ck_assert_uint_eq(world_counts().physical_bytes, 0);
    ck_assert_int_eq(cuMemHostAlloc(&b, 4000000, 0), CU_OUT_OF_MEMORY);
    ck_assert_int_eq(cuMemFreeHost((char *)a + 512), CU_INVALID_VALUE);
    ck_assert_int_ne(cuMemFree_v2((uintptr_t)a), CU_SUCCESS);
    int type = 0;
    ck_ok(cuPointerGetAttribute(&type, CU_POINTER_MEMORY_TYPE, (uintptr_t)a + 4096));
    ck_assert_int_eq(type, CU_MEMORY_OF_HOST);
    ck_ok(cuMemFreeHost(a));
    ck_assert_int_eq(cuMemFreeHost(a), CU_INVALID_VALUE);
    ck_assert_uint_eq(world_counts().host_bytes, 0);
    world_end();
}
END_TEST

START_TEST(freeing_under_work_is_a_hazard)
{
    void *a = NULL;
    world_begin(memory);
    cu_stream stream = world_stream();
    ck_ok(cuMemHostAlloc(&a, GRANULE, 0));
    world_read(stream, (uintptr_t)a, GRANULE);
    ck_ok(cuMemFreeHost(a));
    ck_ok(cuStreamDestroy_v2(stream));
    world_end_with(PLEAT_SIM_UNMAP_IN_USE, 1);
}
END_TEST

START_TEST(made_up_addresses_are_none_of_the_hosts)
{
    cu_mem_prop prop = host_prop(0);
    cu_mem_handle handle;
    ck_assert_int_eq(cuMemCreate(&handle, GRANULE, &prop, 0), CU_NOT_SUPPORTED);
}
END_TEST

SUITE(sim_host)
{
    TCase *tcase = tcase_create("mapped");
    tcase_add_checked_fixture(tcase, with_memory, world_end);
    tcase_add_test(tcase, memory_on_the_host_is_charged_to_the_host);
    tcase_add_test(tcase, the_host_and_devices_use_what_is_mapped);
    tcase_add_test(tcase, the_host_has_no_access_to_a_device);
    tcase_add_test(tcase, what_a_host_cannot_be_is_refused);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("made up");
    tcase_add_checked_fixture(tcase, without_memory, world_end);
    tcase_add_test(tcase, made_up_addresses_are_none_of_the_hosts);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("whole");
    tcase_add_loop_test(tcase, whole_pieces_are_charged_and_freed_once, 0, 2);
    tcase_add_test(tcase, freeing_under_work_is_a_hazard);
    suite_add_tcase(suite, tcase);
}
